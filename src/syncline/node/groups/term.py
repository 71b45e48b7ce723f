"""One term of leadership over one partition of the offsets topic: a shard of groups, its log and its callers.

A term begins LOADING, and is ACTIVE once the shard has read the log. What is easy to break:

- When the term ends, all waiting requests are answered NOT_COORDINATOR, and later results of its writes are ignored:
  the next leader's log decides them, and an acknowledgement could be wrong.
- A write that failed after it was appended may still be committed: the shard no longer knows what its log holds,
  so the term ends.
- Effects are performed in order, even if the log answers at once: one loop empties a shard's queue, never a nested one.
- After an exception that nobody expected the shard may contradict its log, so the term ends, too, and another one reads
  the log again. Other terms and their timers go on.
"""

import logging
from collections import deque
from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar, assert_never

from syncline.core.groups.groups import GroupShard
from syncline.core.groups.messages import AnyReply, Effect, Instant, Persist, Reply, Ticket
from syncline.core.groups.renewal import Renewal
from syncline.model.errors import ErrorCode
from syncline.model.ids import OFFSETS_TOPIC
from syncline.node.groups.port import GroupsHost
from syncline.records.builder import BatchBuilder

log = logging.getLogger("syncline.groups")

OneReply = TypeVar("OneReply", bound=AnyReply)
Answer: TypeAlias = Callable[[OneReply], None]
Act: TypeAlias = Callable[[GroupShard, Ticket, Instant], tuple[Effect, ...]]


class Phase(Enum):
    """The phase of a term."""

    LOADING = 0
    ACTIVE = 1
    FAILED = 2
    OVER = 3


_MOVES: Final = {
    Phase.LOADING: (Phase.ACTIVE, Phase.FAILED, Phase.OVER),
    Phase.ACTIVE: (Phase.OVER,),
    Phase.FAILED: (Phase.OVER,),
    Phase.OVER: (),
}


def instant_now(host: GroupsHost) -> Instant:
    """Return the time of an event that begins now."""
    return Instant(host.clock.mono_ms(), host.clock.wall_ms())


class Term:
    """The groups of one partition, while this broker leads it."""

    def __init__(
        self,
        host: GroupsHost,
        index: int,
        leader_epoch: int,
        shard: GroupShard,
        *,
        on_doubt: Callable[[int], None],
        on_failure: Callable[["Term"], None],
        on_deadline: Callable[[int], None],
    ) -> None:
        self.index = index
        self.leader_epoch = leader_epoch
        self.shard = shard
        self.phase = Phase.LOADING
        # Topics that were deleted while the log was being read.
        self.deleted_topics: dict[str, None] = {}
        # Hears which keys are written while the oldest part of the log is copied (`log_renewal.py`).
        self.renewal: Renewal | None = None
        # What the last renewal copied, and those that were given up since then: their copies grow the log, too.
        self.copied_bytes = 0
        self._host = host
        # Called with the partition when it is unknown whether the log keeps a write.
        self._on_doubt = on_doubt
        # Called when the term has ended because of an unexpected exception.
        self._on_failure = on_failure
        # Called with the time at which the shard has something to do next.
        self._on_deadline = on_deadline
        self._answers: dict[Ticket, Answer[Any]] = {}
        self._last_ticket: Ticket = 0
        self._queue: deque[Effect] = deque()
        self._is_performing = False
        # The memory of members that the broker counts.
        self._member_bytes = 0

    def __repr__(self) -> str:
        return f"<groups of {OFFSETS_TOPIC}-{self.index}, epoch {self.leader_epoch}: {self.phase.name}>"

    def move_to(self, phase: Phase) -> None:
        """Enter another phase."""
        assert phase in _MOVES[self.phase], f"a term goes from {self.phase.name} to {phase.name}"
        self.phase = phase

    def submit(self, act: Act, answer: Answer[Any]) -> None:
        """Let the shard act on a request; `answer` gets the reply, now or later."""
        self._last_ticket += 1
        ticket = self._last_ticket
        self._answers[ticket] = answer
        # If it fails unexpectedly, the dispatcher logs the exception and closes the requester's connection.
        self._run(lambda shard, at: act(shard, ticket, at))

    def act(self, decide: Callable[[GroupShard, Instant], tuple[Effect, ...]]) -> None:
        """Perform what the shard decides now. An unexpected exception is logged, and ends the term."""
        try:
            self._run(decide)
        except Exception:
            log.exception("%r failed; its log will be read again", self)

    def _run(self, decide: Callable[[GroupShard, Instant], tuple[Effect, ...]]) -> None:
        try:
            self._perform(decide(self.shard, instant_now(self._host)))
        except Exception:
            self._fail()
            raise
        self._count_members()

    def end(self) -> None:
        """Answer all waiting requests: this broker no longer leads the partition."""
        self.move_to(Phase.OVER)
        self._perform(self.shard.resigned())
        self._count_members()

    def _count_members(self) -> None:
        """Count the memory that members take, none after the end of the term."""
        member_bytes = 0 if self.phase is Phase.OVER else self.shard.member_bytes
        if member_bytes != self._member_bytes:
            change_bytes = member_bytes - self._member_bytes
            self._member_bytes = member_bytes
            self._host.memory.add(change_bytes)

    def _fail(self) -> None:
        """End the term after an unexpected exception: only the answers of waiting requests are still performed."""
        self._is_performing = False
        self._queue.clear()
        if self.phase is not Phase.OVER:
            self.move_to(Phase.OVER)
            for effect in self.shard.resigned():
                if isinstance(effect, Reply) and effect.ticket in self._answers:
                    self._answer(effect)
            self._answers.clear()
            self._count_members()
            self._on_failure(self)

    def _perform(self, effects: tuple[Effect, ...]) -> None:
        """Answer and append what the shard decided."""
        self._queue.extend(effects)
        if self._is_performing:
            return
        self._is_performing = True
        while self._queue:
            effect = self._queue.popleft()
            match effect:
                case Reply():
                    self._answer(effect)
                case Persist():
                    if self.phase is Phase.ACTIVE:
                        self._append(effect)
                case _:
                    assert_never(effect)
        self._is_performing = False
        # Not in `end`: a log whose disk fails during an append ends the term from inside this loop.
        assert self.phase is not Phase.OVER or not self._answers, f"{self}: {len(self._answers)} requests wait"
        if self.phase is Phase.ACTIVE and (deadline_ms := self.shard.next_deadline_ms()) is not None:
            self._on_deadline(deadline_ms)

    def _answer(self, effect: Reply) -> None:
        assert effect.ticket in self._answers, f"ticket {effect.ticket} was answered before"
        answer = self._answers.pop(effect.ticket)
        try:
            answer(effect.reply)
        except Exception:
            # A failure to answer concerns one requester; the group continues.
            log.exception("a response for groups of %s-%s failed", OFFSETS_TOPIC, self.index)

    def _append(self, effect: Persist) -> None:
        done = partial(self._written, effect.write_id)
        partition = self._host.partition(OFFSETS_TOPIC, self.index)
        if partition is None or not partition.is_leader:
            done(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
            return
        builder = BatchBuilder()
        now_ms = self._host.clock.wall_ms()
        for record in effect.records:
            builder.append(now_ms, record.key, record.value)
            if self.renewal is not None:
                self.renewal.written(record.key)
        partition.append_internal(builder.build(), done)

    def _written(self, write_id: int, error: ErrorCode, base_offset: int) -> None:
        if self.phase is not Phase.ACTIVE:
            return
        if error == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND:
            # The high watermark has passed the write, so it is committed, though on few replicas.
            error = ErrorCode.NONE
        if error and base_offset >= 0:
            log.info("groups of %s-%s: a write may or may not be in the log: %s", OFFSETS_TOPIC, self.index, error.name)
            self._on_doubt(self.index)
            return
        if error:
            # The keys of this write have no newer record.
            self.renewal = None
        self.act(lambda shard, at: shard.persisted(write_id, error, at))

    def check_invariants(self) -> None:
        """Assert what must hold between two callbacks of the loop."""
        assert self.phase is not Phase.OVER, f"{self} is still there"
        assert not self._queue, f"{self}: {len(self._queue)} effects were not performed"
        assert (self.phase is Phase.ACTIVE) == self.shard.is_loaded, f"{self}: its shard disagrees"
        assert len(self._answers) <= self._last_ticket, f"{self}: {len(self._answers)} of {self._last_ticket} wait"
        if self.phase is Phase.ACTIVE:
            self.shard.check_invariants()
