"""Renewal: the log that is left has the same last value of each key, whatever is written meanwhile."""

from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncline.core.groups.records import GroupRecord
from syncline.core.groups.renewal import Renewal
from syncline.model.ids import Offset

Log: TypeAlias = list[GroupRecord]

KEYS = [b"a", b"b", b"c", b"d"]
RECORDS = st.builds(GroupRecord, st.sampled_from(KEYS), st.one_of(st.none(), st.sampled_from([b"1", b"2", b"33"])))
LOGS = st.lists(RECORDS, max_size=12)


class _Forgetful(Renewal):
    """A renewal that does not hear what is written meanwhile."""

    def written(self, key: bytes) -> None:
        """Do not listen."""


def _state(log: Log) -> dict[bytes, bytes]:
    """Return the last value of each key that has one."""
    last = dict(log)
    return {key: value for key, value in last.items() if value is not None}


def _renewed(log: Log, renewal: Renewal, writes: Log, bytes_max: int) -> Log:
    """Return the log after a renewal; one of `writes` comes before each record that is read, and after each copy."""
    log, end, waiting = list(log), len(log), list(writes)

    def write() -> None:
        if waiting:
            record = waiting.pop(0)
            renewal.written(record.key)
            log.append(record)

    for offset in range(end):
        write()
        renewal.read(offset, *log[offset])
    while records := renewal.take(bytes_max):
        log.extend(records)
        write()
    while waiting:
        write()
    return log


@given(LOGS, st.integers(0, 12), LOGS, st.integers(1, 8))
def test_what_is_left_has_the_state_of_the_whole_log(log: Log, begin: int, writes: Log, bytes_max: int) -> None:
    """From any offset at or below the new start: replicas learn of it at their own times."""
    begin = min(begin, len(log))
    renewed = _renewed(log, Renewal(Offset(begin)), writes, bytes_max)
    for start in range(begin + 1):
        assert _state(renewed[start:]) == _state(log + writes)


def test_a_copy_never_follows_a_newer_record() -> None:
    """The copy would bring the old value back."""
    log = [GroupRecord(b"a", b"1"), GroupRecord(b"b", b"1")]
    writes = [GroupRecord(b"a", b"2"), GroupRecord(b"b", None)]
    assert _state(_renewed(log, Renewal(Offset(2)), writes, 1)) == {b"a": b"2"}
    assert _state(_renewed(log, _Forgetful(Offset(2)), writes, 1)) == {b"a": b"1", b"b": b"1"}


def test_deletions_go_with_what_they_deleted() -> None:
    """Below the new start both are of no use; a deletion above it stays where it is."""
    log = [GroupRecord(b"a", b"1"), GroupRecord(b"a", None), GroupRecord(b"b", b"1"), GroupRecord(b"b", None)]
    renewal = Renewal(Offset(3))
    for offset, record in enumerate(log):
        renewal.read(offset, *record)
    assert renewal.take(100) == ()


def test_copies_come_in_parts() -> None:
    """A part is as large as it may be; a record that is larger comes alone."""
    renewal = Renewal(Offset(5))
    for offset, (key, size) in enumerate([(b"a", 3), (b"b", 3), (b"c", 50), (b"a", 4), (b"d", 1)]):
        renewal.read(offset, key, bytes(size))
    parts = [[key for key, _ in part] for part in iter(lambda: renewal.take(9), ())]
    assert parts == [[b"d"], [b"c"], [b"b", b"a"]]


def test_nothing_is_read_after_the_first_copy() -> None:
    """A record that is read later could be newer than its copy."""
    renewal = Renewal(Offset(5))
    renewal.read(0, b"a", b"1")
    renewal.take(1)
    with pytest.raises(AssertionError, match="reads offset 1"):
        renewal.read(1, b"a", b"2")
