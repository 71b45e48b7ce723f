"""Faults in a cluster that runs on this machine: begin them, count how often they struck, end them.

    faults = Faults("syncline-data")
    with faults.add("disk-slow", broker="leader", topic="orders", partition=3, direction="read", delay_s=2) as slow:
        ...
    assert slow.hits > 0

`syncline.node.faults.table` lists kinds and options, and brokers apply the faults. This module decides which brokers
apply one. Pauses and kills act on processes (`process_faults`).
"""

import contextlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, Unpack

from syncline.local.control import Control, ControlError
from syncline.local.layout import LocalClusterError
from syncline.local.named_brokers import LOOK_TIMEOUT_S, OF_A_PARTITION, NamedBrokers
from syncline.local.process_faults import PAUSE_ID, ProcessFault, ProcessFaults, pause_id, pause_row
from syncline.node.faults.names import KILL, LINK_CUT_ONE_WAY, PAUSE
from syncline.node.faults.rules import DELAY_MS_MAX, DURATION_MS_MAX
from syncline.node.faults.table import (
    KINDS,
    OPTIONS,
    FaultKind,
    FaultOptions,
    Form,
    Node,
    Place,
)

# A broker whose writes are slow on purpose answers between two of them.
CLEAR_TIMEOUT_S: Final = 10.0


@dataclass
class Fault:
    """One fault as of the last refresh; as a context manager it ends the fault."""

    id: str
    kind: str
    # The description of the fault from each broker that has it.
    rows: dict[int, dict[str, Any]]
    _faults: "Faults" = field(repr=False)
    # Whether a broker journalled its begin.
    is_recorded: bool = True
    # A warning, for example of a topic that does not exist.
    remark: str = ""

    @property
    def brokers(self) -> tuple[int, ...]:
        """The brokers that have it."""
        return tuple(sorted(self.rows))

    @property
    def hits(self) -> int:
        """How often it has struck, or had struck when it was cleared."""
        self.refresh()
        return sum(row["hits"] for row in self.rows.values())

    @property
    def seen(self) -> int:
        """How many operations it has selected."""
        self.refresh()
        return sum(row["seen"] for row in self.rows.values())

    @property
    def state(self) -> str:
        """Whether it may still strike ("active") or not ("over")."""
        return "active" if any(row["state"] == "active" for row in self.rows.values()) else "over"

    @property
    def left_s(self) -> float | None:
        """How long it will last; None: until it is cleared, or it is over."""
        left = [row["left_ms"] for row in self.rows.values() if row.get("left_ms") is not None]
        return max(left) / 1_000 if left else None

    def refresh(self) -> None:
        """Ask the brokers again; keep the rows of brokers that do not answer or no longer have the fault."""
        for fault in self._faults.all():
            if fault.id == self.id:
                self.rows.update(fault.rows)

    def clear(self) -> None:
        """End it, unless it is already cleared."""
        with contextlib.suppress(NoSuchFault):
            for fault in self._faults.clear(self.id):
                self.rows.update(fault.rows)

    def as_json(self) -> dict[str, Any]:
        """Return the fault as plain data."""
        return {
            "id": self.id,
            "kind": self.kind,
            "brokers": list(self.brokers),
            "state": self.state,
            "hits": sum(row["hits"] for row in self.rows.values()),
            "seen": sum(row["seen"] for row in self.rows.values()),
            "left_s": self.left_s,
            "what": self.what(),
            "rows": {str(broker): row for broker, row in self.rows.items()},
        }

    def what(self) -> str:
        """Return a description of what the fault affects."""
        row = next(iter(self.rows.values()))
        words = ["/".join(row.get("directions", ())), " ".join(row.get("apis", ()))]
        links = [f"{source}>{target}" for source, target in row.get("links", ())]
        words.append(" ".join(links))
        if "topic" in row:
            words.append(f"{row['topic']}:{row['partition']}" if "partition" in row else row["topic"])
        words += [
            f"client {row['client_id']}" if "client_id" in row else "",
            row.get("error", ""),
            row.get("errno", ""),
        ]
        words.append(f"{row['delay_ms']} ms" if "delay_ms" in row else "")
        return " ".join(word for word in words if word)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.clear()


class NoSuchFault(ControlError):
    """There is no fault with this id."""


class Faults:
    """The faults of the cluster that runs in a data directory."""

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory).absolute()
        self._processes = ProcessFaults(self.directory)
        # Why a broker did not answer the last time, by broker.
        self.silent: dict[int, str] = {}
        # How many brokers answered.
        self.answered = 0

    def add(self, kind: str, **options: Unpack[FaultOptions]) -> Fault:
        """Begin a fault and return it once it takes effect; raises `LocalClusterError` with a sentence.

        `broker` names the broker whose disk or requests are affected (default: all brokers), or that is paused or
        killed; `source` and `target` name a link. Without `for_s` the fault lasts until it is cleared.
        """
        given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
        if kind not in KINDS:
            raise LocalClusterError(f"there is no kind of fault {kind!r}. Known kinds: {', '.join(KINDS)}.")
        entry = KINDS[kind]
        unknown = [name for name in given if name not in OPTIONS]
        if unknown:
            raise LocalClusterError(f"faults have no option {unknown[0]!r}. Known: {', '.join(OPTIONS)}.")
        for_s = given.get("for_s")
        _check_seconds(for_s, "a fault lasts for", DURATION_MS_MAX)
        _check_seconds(given.get("delay_s"), "a delay is", DELAY_MS_MAX)
        if PAUSE_ID.fullmatch(given.get("fault_id", "")):
            raise LocalClusterError(f"{given['fault_id']!r} is reserved for the pause of that broker: use another id.")
        topic, partition = given.get("topic"), given.get("partition")
        if topic is None and partition is not None:
            raise LocalClusterError("a partition is only selected together with its topic: name both.")
        _check_options(entry, given)
        brokers = NamedBrokers(self.directory, (topic, partition))
        if entry.place is Place.PROCESS:
            victims = brokers.named(_nodes(given["broker"]))
            if len(victims) != 1:
                raise LocalClusterError(f"{kind} takes one broker, not {', '.join(map(str, victims)) or 'none'}.")
            assert kind in {PAUSE, KILL}, f"faults of kind {kind} have no effect on processes"
            begun = self._processes.pause(victims[0], for_s) if kind == PAUSE else self._processes.kill(victims[0])
            return self._of_process(victims[0], begun)
        fields = {"id": f"f-{secrets.token_hex(2)}", "kind": kind, **_fields(entry, given)}
        if entry.place is Place.LINK:
            if "source" not in given or "target" not in given:
                raise LocalClusterError(f"{kind} needs both ends of the link: --from and --to.")
            is_one_way = kind == LINK_CUT_ONE_WAY
            links = brokers.links(_nodes(given["source"]), _nodes(given["target"]), one_way=is_one_way)
            fields["links"] = links
            # The end that most links share may be the one that the fault cuts off from the journal.
            takers = list(dict.fromkeys(broker for link in reversed(links) for broker in link))
        else:
            takers = brokers.named(_nodes(given.get("broker", "all")))
        fault = self._begin(fields, takers, brokers.controls, is_link=entry.place is Place.LINK)
        if entry.place is not Place.LINK and topic is not None:
            try:
                brokers.ask_any("broker.partition", topic=topic, partition=partition or 0)
            except ControlError as refusal:
                fault.remark = str(refusal)
        return fault

    def pause(self, broker: Node, *, for_s: float | None = None) -> Fault:
        """Pause a broker's process (SIGSTOP); it resumes after `for_s`, or when the fault is cleared."""
        return self.add(PAUSE, broker=broker, for_s=for_s)

    def kill(self, broker: Node) -> Fault:
        """Kill a broker's process (SIGKILL); its supervisor starts it again, unless `up` ran with --no-restart."""
        return self.add(KILL, broker=broker)

    def _begin(
        self, fields: dict[str, Any], takers: Sequence[int], brokers: Mapping[int, Control], *, is_link: bool
    ) -> Fault:
        paused = self._processes.paused()
        for broker_id in takers:
            if broker_id in paused:
                raise LocalClusterError(
                    f"broker {broker_id} is paused. `syncline fault clear {pause_id(broker_id)}` resumes it."
                )
        rows: dict[int, dict[str, Any]] = {}
        try:
            for broker_id in takers:
                # A link has two ends and is one fault.
                answer = brokers[broker_id].call("faults.add", **fields, journal=not (is_link and rows))
                rows[broker_id] = answer["fault"]
        except ControlError:
            for broker_id in rows:
                with contextlib.suppress(ControlError):
                    brokers[broker_id].call("faults.clear", id=fields["id"])
            raise
        return Fault(fields["id"], fields["kind"], rows, self)

    def all(self) -> list[Fault]:
        """Return the pauses and all faults that the brokers know, including those that are over."""
        rows: dict[str, dict[int, dict[str, Any]]] = {}
        paused = self._processes.paused()
        self.silent = {}
        self.answered = 0
        for broker_id, control in NamedBrokers(self.directory).controls.items():
            if broker_id in paused:
                continue
            try:
                answer = control.call("faults.list", timeout_s=LOOK_TIMEOUT_S)
            except ControlError as error:
                self.silent[broker_id] = str(error)
                continue
            self.answered += 1
            for row in answer["faults"]:
                rows.setdefault(row["id"], {})[broker_id] = row
        pauses = [
            self._of_process(broker_id, ProcessFault(pause_row(broker_id, state), is_recorded=True))
            for broker_id, state in paused.items()
        ]
        return self._of_brokers(rows) + pauses

    def clear(self, fault_id: str | None = None) -> list[Fault]:
        """End one fault, or all; return what they were. Raises `NoSuchFault`."""
        cleared = [
            self._of_process(broker_id, ProcessFault(self._processes.resume(broker_id, state), is_recorded=True))
            for broker_id, state in self._processes.paused().items()
            if fault_id in (None, pause_id(broker_id))
        ]
        if fault_id is not None and cleared:
            return cleared
        rows: dict[str, dict[int, dict[str, Any]]] = {}
        silent: dict[int, str] = {}
        self.answered = 0
        for broker_id, control in NamedBrokers(self.directory).controls.items():
            try:
                answer = control.call("faults.list", timeout_s=CLEAR_TIMEOUT_S)
                self.answered += 1
                if fault_id is not None and all(row["id"] != fault_id for row in answer["faults"]):
                    continue
                answer = control.call("faults.clear", id=fault_id, timeout_s=CLEAR_TIMEOUT_S)
            except ControlError as error:
                silent[broker_id] = str(error)
                continue
            for row in answer["cleared"]:
                rows.setdefault(row["id"], {})[broker_id] = row
        self.silent = silent
        found = self._of_brokers(rows)
        if fault_id is not None and not found:
            more = f" {' '.join(silent.values())}" if silent else ""
            raise NoSuchFault(f"there is no fault {fault_id!r}: `syncline fault list` shows all faults.{more}")
        return cleared + found

    def _of_brokers(self, rows: Mapping[str, dict[int, dict[str, Any]]]) -> list[Fault]:
        return [Fault(fault_id, next(iter(each.values()))["kind"], each, self) for fault_id, each in rows.items()]

    def _of_process(self, broker_id: int, fault: ProcessFault) -> Fault:
        return Fault(fault.row["id"], fault.row["kind"], {broker_id: fault.row}, self, fault.is_recorded)


def _check_seconds(seconds: object, what: str, ms_max: int) -> None:
    """Raise LocalClusterError unless this is a number of seconds, above 0 and at most `ms_max` ms, or None."""
    if seconds is None:
        return
    if not isinstance(seconds, int | float):
        raise LocalClusterError(f"{what} a number of seconds, not {seconds!r}.")
    if seconds <= 0:
        raise LocalClusterError(f"{what} more than 0 s, not {seconds:g}.")
    if not seconds <= ms_max / 1_000:
        raise LocalClusterError(f"{what} at most {ms_max // 1_000} s, not {seconds:g}.")


def _check_options(kind: FaultKind, given: Mapping[str, Any]) -> None:
    """Raise LocalClusterError if an option is missing, or does not apply to this kind of fault."""
    usable = set(kind.options)
    nodes = {str(node) for name in ("broker", "source", "target") for node in _nodes(given.get(name, ()))}
    if nodes & OF_A_PARTITION:
        usable |= {"topic", "partition"}
    useless = [OPTIONS[name].flag for name in OPTIONS if name in given and name not in usable]
    if useless:
        raise LocalClusterError(f"{kind.name} does not take {', '.join(useless)}.")
    for names in kind.needs:
        first, *others = names.split(" ")
        if not any(given.get(name) for name in (first, *others)):
            flags = " or ".join(OPTIONS[name].flag for name in (first, *others))
            raise LocalClusterError(f"{kind.name} needs {flags}.")


def _fields(kind: FaultKind, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options, except the links, as the fields that brokers read."""
    fields: dict[str, Any] = {}
    for name, option in OPTIONS.items():
        if name not in given or name not in kind.options or option.field in {"", "links"}:
            continue
        value = given[name]
        if option.form is Form.TIME:
            value = max(1, round(value * 1_000))
        elif option.form is Form.TEXTS:
            value = [value] if isinstance(value, str) else list(value)
        fields[option.field] = value
    return fields


def _nodes(value: Node | Sequence[Node]) -> Sequence[Node]:
    return (value,) if isinstance(value, int | str) else value
