"""The control API's verbs about faults (`node.control.verbs`).

- `faults.add` begins one: {"id", "kind", ...}, see `rules`; it answers {"fault": {...}} once the fault takes effect.
- `faults.list` answers {"faults": [...]}, including ended ones.
- `faults.clear` ends the one with {"id"}, or all; it answers {"cleared": [...]} with their last counters.
- `faults.record` journals what a tool does to the cluster (a paused or killed process): {"kind", "target", "phase",
  "note"}, at once if the journal can be reached.
"""

from typing import TYPE_CHECKING, Final, Protocol

from syncline.model.events import Fault
from syncline.model.ids import NONE, BrokerId
from syncline.node.control.verbs import Answer, ControlRefused, Fields
from syncline.node.faults.rules import TEXT_MAX

if TYPE_CHECKING:
    from syncline.node.faults.on_demand import FaultsOnDemand
    from syncline.node.faults.registry import Faults
    from syncline.node.observing.journal import Journal
    from syncline.node.views.values import HasBrokerId, HasClock, HasConfig

    class Host(HasBrokerId, HasClock, HasConfig, Protocol):
        """What these verbs use of their broker."""

        @property
        def faults(self) -> FaultsOnDemand:
            """Return the injected faults."""

        @property
        def journal(self) -> Journal:
            """Return the journal, which records faults."""


# The year 10000, which Python's calendar cannot represent.
TIMESTAMP_END_MS: Final = 253_402_300_800_000


async def add(broker: "Host", fields: Fields) -> Answer:
    """Begin a fault."""
    rule = await _faults(broker).add(fields)
    return {"fault": rule.describe(broker.clock.mono_ms())}


def show(broker: "Host", _fields: Fields) -> Answer:
    """List the faults."""
    return {"faults": [] if broker.faults.registry is None else broker.faults.registry.describe()}


def clear(broker: "Host", fields: Fields) -> Answer:
    """End a fault, or all of them."""
    fault_id = fields.get("id")
    if fault_id is not None and not isinstance(fault_id, str):
        raise ControlRefused(f"the id of a fault must be text, not {fault_id!r}.")
    if broker.faults.registry is None:
        if fault_id is not None:
            raise ControlRefused(f"broker {broker.broker_id} has no fault {fault_id!r}.")
        return {"cleared": []}
    return {"cleared": broker.faults.registry.clear(fault_id)}


async def record(broker: "Host", fields: Fields) -> Answer:
    """Journal a fault that a tool injects from outside."""
    texts = {name: fields.get(name) for name in ("kind", "target", "phase", "note")}
    if any(not isinstance(text, str) for text in texts.values()) or texts["phase"] not in {"begin", "end"}:
        raise ControlRefused('a recorded fault needs "kind", "target", "note" and a "phase" that is "begin" or "end".')
    if any(len(str(text)) > TEXT_MAX for text in texts.values()):
        raise ControlRefused(f"each field of a recorded fault can have at most {TEXT_MAX} characters.")
    ts_ms = fields.get("ts_ms")
    if ts_ms is None:
        ts_ms = broker.clock.wall_ms()
    if not isinstance(ts_ms, int) or not 0 <= ts_ms < TIMESTAMP_END_MS:
        raise ControlRefused(f'"ts_ms" must be a time in milliseconds since 1970, not {ts_ms!r}.')
    event = Fault(
        ts_ms=ts_ms,
        broker=BrokerId(NONE),
        **texts,  # type: ignore[arg-type]
    )
    broker.journal.note(event)
    await broker.journal.flush()
    return {}


def _faults(broker: "Host") -> "Faults":
    if not broker.config.fault_injection_enable:
        raise ControlRefused(
            f"broker {broker.broker_id} accepts no faults. Start it with --config fault.injection.enable=true."
        )
    return broker.faults.made()
