"""Outbox: the effects of one event of the group coordinator, its open writes and its deadlines.

The coordinator writes a decision that must survive to the log, and answers the
requester only when the log has committed it. A write has three callbacks, which
may run at different times: `applied` changes the state that clients read, and
runs when the log commits, however late; `ended` runs at the commit or the
failure, when the write is no longer open; `answered` answers the requester, once,
at the commit, at a failure, or after `write_timeout_ms`. So the state always
equals the committed log, even after a client has given up.

Writes are persisted in the order in which they were made, and their fates
arrive in that order: the first open one has the earliest deadline.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from syncline.core.groups.member_bytes import MemberBytes
from syncline.core.groups.messages import AnyReply, Effect, GroupSettings, Instant, Persist, Reply, Ticket
from syncline.core.groups.records import GroupRecord
from syncline.core.groups.timers import Timers
from syncline.model.errors import ErrorCode
from syncline.model.immutable import Immutable


class TimerKind(IntEnum):
    """The kinds of deadlines."""

    SESSION = 0
    JOIN = 1
    SYNC = 2
    EXPIRY = 3


class TimerKey(NamedTuple):
    """Names a deadline; one of a group has no member id (""), one of the coordinator neither id."""

    kind: TimerKind
    group_id: str = ""
    member_id: str = ""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Write(Immutable):
    applied: Callable[[], None]
    answered: Callable[[ErrorCode], None]
    ended: Callable[[], None]


def _nothing() -> None:
    """The callback of a write that needs none."""


class Outbox:
    """The effects of the present event, the open writes and the deadlines of one coordinator."""

    def __init__(self, settings: GroupSettings) -> None:
        self.settings = settings
        self.at = Instant(0, 0)
        self.timers: Timers[TimerKey] = Timers()
        self.member_bytes = MemberBytes()
        self._effects: list[Effect] = []
        self._writes: dict[int, _Write] = {}
        self._write_deadlines_ms: dict[int, int] = {}
        self._last_write_id = 0

    def begin(self, at: Instant) -> None:
        """Begin an event at this time."""
        assert not self._effects, f"{len(self._effects)} effects of the event before were not performed"
        assert at.now_ms >= self.at.now_ms, f"an event at {at.now_ms} ms comes after one at {self.at.now_ms} ms"
        self.at = at

    def take(self) -> tuple[Effect, ...]:
        """Return the effects since the last call."""
        taken = tuple(self._effects)
        self._effects.clear()
        return taken

    def reply(self, ticket: Ticket, reply: AnyReply) -> None:
        """Answer a request."""
        self._effects.append(Reply(ticket, reply))

    def start(self, key: TimerKey, delay_ms: int) -> None:
        """Make `key` due `delay_ms` from now; an earlier setting is replaced."""
        self.timers.set(key, self.at.now_ms + max(delay_ms, 0))

    def write(
        self,
        records: tuple[GroupRecord, ...],
        *,
        applied: Callable[[], None],
        answered: Callable[[ErrorCode], None],
        ended: Callable[[], None] = _nothing,
    ) -> None:
        """Append records; `answered` gets the log's own error codes, REQUEST_TIMED_OUT when it takes too long."""
        assert records, "a write of no records has no fate"
        self._last_write_id += 1
        self._writes[self._last_write_id] = _Write(applied, answered, ended)
        self._write_deadlines_ms[self._last_write_id] = self.at.now_ms + self.settings.write_timeout_ms
        self._effects.append(Persist(self._last_write_id, records))

    def persisted(self, write_id: int, error: ErrorCode) -> None:
        """Run the callbacks of a write that was committed or has failed."""
        assert write_id in self._writes, f"the fate of write {write_id} is reported twice, or it was never made"
        write = self._writes.pop(write_id)
        is_open = self._write_deadlines_ms.pop(write_id, None) is not None
        if error is ErrorCode.NONE:
            write.applied()
        write.ended()
        if is_open:
            write.answered(error)

    def give_up_overdue(self) -> None:
        """Answer for writes that take too long."""
        for write_id, deadline_ms in list(self._write_deadlines_ms.items()):
            if deadline_ms > self.at.now_ms:
                break
            del self._write_deadlines_ms[write_id]
            assert write_id in self._writes, f"write {write_id} is decided, and yet overdue"
            self._writes[write_id].answered(ErrorCode.REQUEST_TIMED_OUT)

    def give_up_all(self) -> None:
        """Answer for all open writes: this broker no longer leads the log."""
        open_writes = [self._writes[write_id] for write_id in self._write_deadlines_ms]
        self._writes.clear()
        self._write_deadlines_ms.clear()
        for write in open_writes:
            write.answered(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    @property
    def has_open_writes(self) -> bool:
        """Return whether a write is neither committed nor failed yet."""
        return bool(self._writes)

    def next_deadline_ms(self) -> int | None:
        """Return when something is due next, at the latest; None for never."""
        write_ms = next(iter(self._write_deadlines_ms.values()), None)
        timer_ms = self.timers.next_ms()
        if write_ms is None or timer_ms is None:
            return timer_ms if write_ms is None else write_ms
        return min(write_ms, timer_ms)

    def check_invariants(self) -> None:
        """Assert what must hold between any two events."""
        assert not self._effects, f"{len(self._effects)} effects were not handed out"
        assert self._write_deadlines_ms.keys() <= self._writes.keys(), "a deadline for a write that is decided"
        deadlines = list(self._write_deadlines_ms.values())
        assert deadlines == sorted(deadlines), f"a later write is due earlier: {deadlines}"
        assert max(self._writes, default=0) <= self._last_write_id, "a write that was never made"
        self.timers.check_invariants()


def group_write_error(error: ErrorCode) -> ErrorCode:
    """Return the error for a client when a group's metadata could not be written."""
    if error in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR):
        return ErrorCode.NOT_COORDINATOR
    if error in _NOT_NOW:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return ErrorCode.NONE if error is ErrorCode.NONE else ErrorCode.UNKNOWN_SERVER_ERROR


def offset_write_error(error: ErrorCode) -> ErrorCode:
    """Return the error for a client when offsets could not be written."""
    if error in (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.INVALID_FETCH_SIZE):
        return ErrorCode.INVALID_COMMIT_OFFSET_SIZE
    return group_write_error(error)


_NOT_NOW = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.REQUEST_TIMED_OUT,
)
