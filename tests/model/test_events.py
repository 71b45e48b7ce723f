"""Journal events survive the wire, also between writers and readers of different age."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncline.model import events
from syncline.model.events import (
    Acknowledgements,
    BrokerState,
    Election,
    EventDecodeError,
    Fault,
    FollowerProgress,
    IsrChange,
    Move,
    Observation,
    Throttle,
    TopicChange,
    Truncation,
    UnknownEvent,
    Watermark,
)
from syncline.model.ids import BrokerId, LeaderEpoch, Offset, PartitionEpoch
from syncline.model.lag_events import FetchLagSample, GroupLagSample, GroupStatusChange
from syncline.model.reasons import Reason

_int64 = st.integers(-(2**63), 2**63 - 1)
_json = st.recursive(
    st.none() | st.booleans() | _int64 | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
_evidence = st.dictionaries(st.text(), _json, max_size=4)
_brokers = st.lists(st.integers(-1, 9), max_size=4).map(tuple)
_entries = st.lists(_evidence, max_size=2).map(tuple)
_where = {"ts_ms": _int64, "broker": st.integers(-1, 9), "topic": st.text(), "partition": st.integers(0, 99)}
_known = st.one_of(
    st.builds(
        IsrChange,
        **_where,
        leader_epoch=_int64,
        partition_epoch=_int64,
        change=st.sampled_from(["shrink", "expand"]),
        outcome=st.sampled_from(["committed", "refused"]),
        before=_brokers,
        after=_brokers,
        rule=st.text(),
        evidence=_evidence,
    ),
    st.builds(
        Election, **_where, leader_before=_int64, leader_after=_int64, isr=_brokers, reason=st.sampled_from(Reason)
    ),
    st.builds(Truncation, **_where, rule=st.text(), evidence=_evidence),
    st.builds(FollowerProgress, **_where, lag_records=_int64, lag_ms=_int64, in_sync=st.booleans()),
    st.builds(Watermark, **_where, phase=st.sampled_from(["held", "resumed"]), rule=st.text(), evidence=_evidence),
    st.builds(
        Observation,
        kind=st.text(),
        subject=st.integers(-1, 9),
        phase=st.sampled_from(["begin", "ongoing", "end"]),
        since_ms=_int64,
        lasted_ms=_int64,
        topic=st.text(),
        partition=st.integers(-1, 9),
        evidence=_evidence,
    ),
    st.builds(
        TopicChange,
        topic=st.text(),
        topic_id=st.text(),
        change=st.sampled_from(["created", "grown", "deleted"]),
        partitions=_int64,
    ),
    st.builds(BrokerState, subject=st.integers(0, 9), reason=st.sampled_from(Reason), evidence=_evidence),
    st.builds(
        Throttle,
        role=st.sampled_from(["leader", "follower"]),
        phase=st.sampled_from(["begin", "ongoing", "end"]),
        held=_int64,
        replicas=st.lists(st.text(), max_size=3).map(tuple),
        ratio=st.floats(0, 1),
        move=st.text(),
        taken=st.lists(_evidence, max_size=2).map(tuple),
    ),
    st.builds(
        Move,
        move=st.text(),
        phase=st.sampled_from(["started", "changed", "ended"]),
        name=st.text(),
        reason=st.sampled_from(Reason),
    ),
    st.builds(Acknowledgements, count=_int64, p50_ms=_int64, p99_ms=_int64, max_ms=_int64),
    st.builds(FetchLagSample, fetches=_int64, behind_bytes=_entries, event_ms=_entries, age_ms=_entries),
    st.builds(GroupLagSample, group=st.text(), lag_bytes=_int64, rows=_entries),
    st.builds(GroupStatusChange, group=st.text(), evidence=_evidence, findings=_entries),
    st.builds(Fault, kind=st.text(), target=st.text(), phase=st.sampled_from(["begin", "end"])),
)

_SHRINK = IsrChange(
    ts_ms=1_700_000_000_000,
    broker=BrokerId(1),
    topic="flights",
    partition=3,
    leader_epoch=LeaderEpoch(4),
    partition_epoch=PartitionEpoch(7),
    change="shrink",
    outcome="committed",
    before=(BrokerId(1), BrokerId(2), BrokerId(3)),
    after=(BrokerId(1), BrokerId(3)),
    rule="time",
    evidence={"replica": 2, "behind_ms": 3_200, "replica_lag_time_max_ms": 3_000},
)


@given(_known)
def test_event_comes_back_equal_when_sent_over_the_wire(event: events.KnownEvent) -> None:
    """Writing and reading an event is the identity, whatever it holds."""
    assert event == events.from_json(events.to_json(event))


def test_event_is_one_flat_object_with_the_envelope_first() -> None:
    """A reader without this module finds the envelope and the fields side by side."""
    content = json.loads(events.to_json(_SHRINK))

    assert list(content)[:4] == ["v", "type", "ts_ms", "broker"]
    assert content["type"] == "isr_change"
    assert content["after"] == [1, 3]
    assert content["evidence"]["behind_ms"] == 3_200


def test_event_of_a_newer_type_is_kept_whole_when_read_and_written_again() -> None:
    """An old reader forwards fields that it does not know."""
    newer = b'{"v":2,"type":"throttle_sample","ts_ms":5,"broker":1,"rate":{"in":7}}'

    event = events.from_json(newer)

    assert (
        UnknownEvent(type="throttle_sample", version=2, ts_ms=5, broker=BrokerId(1), rest={"rate": {"in": 7}}) == event
    )
    assert newer == events.to_json(event)


def test_event_of_a_known_type_drops_fields_of_a_newer_writer() -> None:
    """A field added later does not disturb a reader that was built before it."""
    content = json.loads(events.to_json(_SHRINK)) | {"added_later": 1}

    assert events.from_json(json.dumps(content)) == _SHRINK


@pytest.mark.parametrize(
    ("written", "read"),
    [
        pytest.param("process-gone", Reason.PROCESS_GONE, id="known"),
        pytest.param("not heard of for more than 9000 ms", Reason.UNKNOWN, id="text of version 1"),
        pytest.param("moved-by-an-administrator", Reason.UNKNOWN, id="newer writer"),
        pytest.param(None, Reason.UNKNOWN, id="null"),
        pytest.param(["process-gone"], Reason.UNKNOWN, id="list"),
    ],
)
def test_reason_that_a_reader_does_not_know_is_unknown(written: object, read: Reason) -> None:
    """Events of older and of newer brokers are read all the same."""
    content = {"v": 1, "type": "broker_state", "ts_ms": 5, "broker": 1, "subject": 3, "state": "fenced"}

    event = events.from_json(json.dumps(content | {"reason": written}))

    assert isinstance(event, BrokerState)
    assert (event.subject, event.state, event.reason) == (3, "fenced", read)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"\xff\xfe", id="not text"),
        pytest.param(b"[]", id="no object"),
        pytest.param(b'{"v":1,"type":"fault","broker":1}', id="no time"),
        pytest.param(b'{"v":1,"type":"fault","ts_ms":1,"broker":1,"kind":"kill"}', id="no target"),
        pytest.param(b'{"v":1,"type":"election","ts_ms":1,"broker":1,"isr":3}', id="isr is no list"),
    ],
)
def test_event_is_refused_when_the_value_is_none(data: bytes) -> None:
    """Bytes that are not an event raise one error, never a KeyError later."""
    with pytest.raises(EventDecodeError):
        events.from_json(data)


def test_journal_key_is_the_subject_of_the_event() -> None:
    """Events about one subject share a key, and so a journal partition and its order."""
    fault = Fault(ts_ms=1, broker=BrokerId(-1), kind="kill", target="broker-2", phase="begin")
    progress = FollowerProgress(
        ts_ms=1,
        broker=BrokerId(1),
        topic="flights",
        partition=3,
        leader_epoch=LeaderEpoch(4),
        follower=BrokerId(2),
        log_end=Offset(9),
        follower_log_end=Offset(7),
        high_watermark=Offset(7),
        lag_records=2,
        lag_ms=15,
    )

    assert events.journal_key(fault) == b"broker-2"
    assert b"flights-3" == events.journal_key(_SHRINK) == events.journal_key(progress)
