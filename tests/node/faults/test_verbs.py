"""The control API's fault verbs: what they refuse, and that a refusal leaves no trace."""

from typing import Any

import pytest

from syncline.node.control.verbs import ControlRefused
from syncline.node.faults import verbs
from tests.node.world import World

faulty = pytest.mark.brokers(1, fault_injection_enable="true")
RECORD = {"kind": "pause", "target": "broker-1", "phase": "begin", "note": "SIGSTOP"}


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"kind": 3}, "a recorded fault needs"),
        ({"phase": "middle"}, "a recorded fault needs"),
        ({"note": None}, "a recorded fault needs"),
        ({"note": "x" * 1_001}, "at most 1000 characters"),
        ({"ts_ms": 10**30}, "a time in milliseconds"),
        ({"ts_ms": -5}, "a time in milliseconds"),
        ({"ts_ms": "now"}, "a time in milliseconds"),
    ],
)
@faulty
async def test_record_that_the_journal_could_not_take_is_refused(
    world: World, wrong: dict[str, Any], sentence: str
) -> None:
    """One event that cannot be written would keep all behind it from being written."""
    with pytest.raises(ControlRefused, match=sentence):
        await world.as_broker(1, verbs.record(world.broker(), {**RECORD, **wrong}))
    assert await world.as_broker(1, verbs.record(world.broker(), RECORD)) == {}


@faulty
async def test_begin_that_fails_leaves_no_fault(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the error the fault is not listed, and its id may be used again."""

    async def fail() -> None:
        raise RuntimeError("no journal today")

    call = {"id": "f", "kind": "api-disconnect", "apis": ["FETCH"], "topic": "t"}
    with monkeypatch.context() as patch:
        patch.setattr(world.broker().journal, "flush", fail)
        with pytest.raises(RuntimeError):
            await world.as_broker(1, verbs.add(world.broker(), call))
    assert verbs.show(world.broker(), {}) == {"faults": []}

    await world.as_broker(1, verbs.add(world.broker(), call))
    world.call(1, verbs.clear, world.broker(), {})


@faulty
async def test_fault_that_begins_while_the_broker_stops_is_refused(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits for the journal when all faults end: its timer must not outlive them."""
    broker = world.broker()

    async def stop_meanwhile() -> None:
        broker.faults.made().close()

    call = {"id": "f", "kind": "api-disconnect", "apis": ["FETCH"], "topic": "t", "duration_ms": 500}
    monkeypatch.setattr(broker.journal, "flush", stop_meanwhile)
    with pytest.raises(ControlRefused, match="cleared before it began"):
        await world.as_broker(1, verbs.add(broker, call))
    assert verbs.show(broker, {}) == {"faults": []}
