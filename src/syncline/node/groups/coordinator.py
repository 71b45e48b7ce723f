"""The group coordinator of one broker: one `GroupShard` per led partition of the offsets topic.

The rules are core's; here they get their log, their clock and their callers.

    request -> shard -> effects -> Reply:   the caller's callback
                                -> Persist: one batch appended to the partition; its fate goes back to the shard

What is easy to break:

- A shard belongs to one term of leadership. When the term ends, everything
  that waits is answered NOT_COORDINATOR, and what the log says later about the
  shard's writes is not listened to (M39).
- A write that failed after it was appended may still be committed: the shard
  does not know what its log holds any more, so it is dropped, and the next
  term (or `became_leader` for this one) reads the log anew.
- Effects are performed in their order, also when the log answers at once: a
  shard's queue is worked off by one loop only, never by a nested one.

Timers: one timer of the loop for all shards, at the earliest deadline.
"""

import asyncio
import logging
import random
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from enum import Enum
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar, assert_never
from uuid import UUID

from syncline.core.groups.groups import GroupShard, partition_of
from syncline.core.groups.messages import (
    AnyReply,
    CommitReply,
    CommitRequest,
    DeleteReply,
    Effect,
    GroupDescription,
    GroupSettings,
    GroupStatistics,
    HeartbeatReply,
    Instant,
    JoinReply,
    JoinRequest,
    LeaveReply,
    MemberIdentity,
    OffsetDeleteReply,
    Persist,
    Reply,
    SyncReply,
    SyncRequest,
    Ticket,
)
from syncline.core.groups.records import CommittedOffset, GroupRecordError, is_storable
from syncline.model.broker_config import BrokerConfig
from syncline.model.errors import ErrorCode, RequestError
from syncline.model.ids import OFFSETS_TOPIC
from syncline.node.groups.port import GroupsHost
from syncline.records.batch import BatchHeader, iterate
from syncline.records.builder import BatchBuilder
from syncline.records.errors import DecodeError
from syncline.records.record import read_records
from syncline.storage.errors import StorageError

log = logging.getLogger("syncline.groups")

# Between two looks at the loop while a log is read: some 10 ms of work.
REPLAYED_RECORDS_PER_TURN: Final = 500

OneReply = TypeVar("OneReply", bound=AnyReply)
Answer: TypeAlias = Callable[[OneReply], None]
Act: TypeAlias = Callable[[GroupShard, Ticket, Instant], tuple[Effect, ...]]


class _Phase(Enum):
    LOADING = 0
    ACTIVE = 1
    FAILED = 2
    OVER = 3


class _Term:
    """One term of leadership over one partition of the offsets topic."""

    __slots__ = ("answers", "deleted_topics", "index", "is_performing", "leader_epoch", "phase", "queue", "shard")

    def __init__(self, index: int, leader_epoch: int, shard: GroupShard) -> None:
        self.index = index
        self.leader_epoch = leader_epoch
        self.shard = shard
        self.phase = _Phase.LOADING
        # Topics that went while the log was being read.
        self.deleted_topics: dict[str, None] = {}
        self.answers: dict[Ticket, Answer[Any]] = {}
        self.queue: deque[Effect] = deque()
        self.is_performing = False


class GroupCoordinator:
    """All groups whose coordinator this broker is."""

    def __init__(self, host: GroupsHost) -> None:
        self._host = host
        # Dice of its own: how often members join must not change what others throw.
        self._dice = random.Random(host.rng.getrandbits(64))  # noqa: S311 - ids need no secrecy
        self._terms: dict[int, _Term] = {}
        self._last_ticket: Ticket = 0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0
        self._is_creating_topic = False

    # Leadership

    def became_leader(self, partition_index: int, leader_epoch: int) -> None:
        """Take over the groups of a partition, or learn that the term over it has a new number."""
        term = self._terms.get(partition_index)
        if term is not None and term.phase is _Phase.ACTIVE:
            # No write was lost between the terms, or the term were over: the shard still equals the log.
            term.leader_epoch = max(term.leader_epoch, leader_epoch)
            return
        if term is not None and term.leader_epoch >= leader_epoch:
            return
        self._end(partition_index)
        shard = GroupShard(_settings(self._host.config), self._draw_uuid)
        term = self._terms[partition_index] = _Term(partition_index, leader_epoch, shard)
        self._host.spawn(self._load(term))

    def resigned(self, partition_index: int) -> None:
        """Give up the groups of a partition that this broker does not lead any more."""
        self._end(partition_index)

    def close(self) -> None:
        """Answer all that waits, and stop."""
        for partition_index in sorted(self._terms):
            self._end(partition_index)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end(self, partition_index: int) -> None:
        term = self._terms.pop(partition_index, None)
        if term is None:
            return
        term.phase = _Phase.OVER
        self._perform(term, term.shard.resigned())
        assert not term.answers, f"{len(term.answers)} requests wait for a term that is over"

    def _draw_uuid(self) -> str:
        return str(UUID(int=self._dice.getrandbits(128), version=4))

    async def _load(self, term: _Term) -> None:
        try:
            record_count = await self._replay(term, self._committed_batches(term.index))
        except RequestError as error:
            log.info("groups of %s-%s are not loaded: %s", OFFSETS_TOPIC, term.index, error)
            if self._terms.get(term.index) is term:
                self._end(term.index)
            return
        except (GroupRecordError, DecodeError, StorageError, OSError):
            log.exception("groups of %s-%s cannot be loaded", OFFSETS_TOPIC, term.index)
            term.phase = _Phase.FAILED
            return
        if term.phase is _Phase.LOADING:
            term.phase = _Phase.ACTIVE
            level = logging.INFO if record_count else logging.DEBUG
            log.log(level, "groups of %s-%s are loaded: %s records", OFFSETS_TOPIC, term.index, record_count)
            self._perform(term, term.shard.loaded(self._now()))
            if term.deleted_topics:
                self._perform(term, term.shard.forget_topics(tuple(term.deleted_topics), self._now()))

    def _committed_batches(self, partition_index: int) -> AsyncIterator[bytes]:
        partition = self._host.partition(OFFSETS_TOPIC, partition_index)
        if partition is None:
            raise RequestError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the replica is not here")
        return partition.read_committed_batches(0)

    async def _replay(self, term: _Term, chunks: AsyncIterator[bytes]) -> int:
        record_count = 0
        turn_count = 0
        try:
            async for chunk in chunks:
                for position, header in iterate(chunk, 0, len(chunk)):
                    if term.phase is not _Phase.LOADING:
                        return record_count
                    turn_count += _replay_batch(term.shard, chunk, position, header, self._now())
                    if turn_count >= REPLAYED_RECORDS_PER_TURN:
                        record_count += turn_count
                        turn_count = 0
                        await asyncio.sleep(0)
        finally:
            # Left to the garbage collector, a generator is closed whenever that pleases.
            if isinstance(chunks, AsyncGenerator):
                await chunks.aclose()
        return record_count + turn_count

    # Requests. The answer comes at once or later, exactly once.

    def join(self, group_id: str, request: JoinRequest, answer: Answer[JoinReply]) -> None:
        """JoinGroup."""
        self._submit(
            group_id,
            lambda shard, ticket, at: shard.join(ticket, group_id, request, at),
            answer,
            lambda error: JoinReply(error=error, member_id=request.member_id),
        )

    def sync(self, group_id: str, request: SyncRequest, answer: Answer[SyncReply]) -> None:
        """SyncGroup."""
        self._submit(
            group_id,
            lambda shard, ticket, at: shard.sync(ticket, group_id, request, at),
            answer,
            lambda error: SyncReply(error=error),
        )

    def heartbeat(
        self,
        group_id: str,
        *,
        member_id: str,
        group_instance_id: str | None,
        generation: int,
        answer: Answer[HeartbeatReply],
    ) -> None:
        """Heartbeat."""
        self._submit(
            group_id,
            lambda shard, ticket, at: shard.heartbeat(
                ticket,
                group_id,
                member_id=member_id,
                group_instance_id=group_instance_id,
                generation=generation,
                at=at,
            ),
            answer,
            # As Kafka does: a member must not give up its heartbeats because its coordinator is still loading.
            lambda error: HeartbeatReply(
                error=ErrorCode.NONE if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else error
            ),
        )

    def leave(self, group_id: str, identities: Sequence[MemberIdentity], answer: Answer[LeaveReply]) -> None:
        """LeaveGroup."""
        self._submit(
            group_id,
            lambda shard, ticket, at: shard.leave(ticket, group_id, identities, at),
            answer,
            lambda error: LeaveReply(error=error),
        )

    def commit(self, group_id: str, request: CommitRequest, answer: Answer[CommitReply]) -> None:
        """OffsetCommit; the group "" is a group like any other here."""
        self._submit(
            group_id,
            lambda shard, ticket, at: shard.commit(ticket, group_id, request, at),
            answer,
            lambda error: CommitReply(errors={(each.topic, each.partition): error for each in request.offsets}),
            may_be_nameless=True,
        )

    def delete_group(self, group_id: str, answer: Answer[DeleteReply]) -> None:
        """DeleteGroups, one group."""
        self._submit(
            group_id,
            lambda shard, ticket, at: shard.delete_group(ticket, group_id, at),
            answer,
            lambda error: DeleteReply(error=error),
            may_be_nameless=True,
        )

    def delete_offsets(
        self, group_id: str, places: Sequence[tuple[str, int]], answer: Answer[OffsetDeleteReply]
    ) -> None:
        """OffsetDelete."""
        self._submit(
            group_id,
            lambda shard, ticket, at: shard.delete_offsets(ticket, group_id, places, at),
            answer,
            lambda error: OffsetDeleteReply(error=error, errors={}),
        )

    def topics_deleted(self, names: Sequence[str]) -> None:
        """Delete the offsets of topics that are gone."""
        for index in sorted(self._terms):
            term = self._terms[index]
            if term.phase is _Phase.LOADING:
                term.deleted_topics.update(dict.fromkeys(names))
            elif term.phase is _Phase.ACTIVE:
                self._perform(term, term.shard.forget_topics(names, self._now()))

    def _submit(
        self,
        group_id: str,
        act: Act,
        answer: Answer[OneReply],
        refusal: Callable[[ErrorCode], OneReply],
        *,
        may_be_nameless: bool = False,
    ) -> None:
        if not may_be_nameless and not group_id:
            answer(refusal(ErrorCode.INVALID_GROUP_ID))
            return
        try:
            term = self._term(group_id)
        except RequestError as error:
            answer(refusal(error.code))
            return
        self._last_ticket += 1
        term.answers[self._last_ticket] = answer
        self._perform(term, act(term.shard, self._last_ticket, self._now()))

    # Answers from what is committed. They raise `RequestError` when this broker cannot give them.

    def offsets_of(self, group_id: str) -> dict[str, dict[int, CommittedOffset]]:
        """Return the committed offsets of a group by topic and partition."""
        stored = self._term(group_id).shard.offsets_of(group_id)
        return {topic: dict(partitions) for topic, partitions in stored.items()}

    def describe(self, group_id: str) -> GroupDescription | None:
        """Return what is shown of a group, None if it does not exist."""
        return self._term(group_id).shard.describe(group_id)

    def list_groups(self) -> tuple[GroupDescription, ...]:
        """Return the groups coordinated here, without their members."""
        if any(term.phase is _Phase.LOADING for term in self._terms.values()):
            raise RequestError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return tuple(group for term in self._active_terms() for group in term.shard.list_groups())

    def statistics(self) -> tuple[GroupStatistics, ...]:
        """Return every group coordinated here in a line."""
        return tuple(group for term in self._active_terms() for group in term.shard.statistics())

    # Where a group lives

    def partition_of(self, group_id: str) -> int:
        """Return the partition of the offsets topic that holds a group."""
        topic = self._host.image.topics.get(OFFSETS_TOPIC)
        count = len(topic.partitions) if topic is not None else self._host.config.offsets_topic_num_partitions
        return partition_of(group_id, count)

    def create_topic(self) -> None:
        """See to it that the offsets topic comes to be; it takes a moment."""
        if not self._is_creating_topic:
            self._is_creating_topic = True
            self._host.spawn(self._create_topic())

    async def _create_topic(self) -> None:
        try:
            await self._host.create_internal_topic(OFFSETS_TOPIC)
        except RequestError as error:
            # Whoever needs it asks again, and so do we.
            log.warning("cannot create %s: %s", OFFSETS_TOPIC, error)
        finally:
            self._is_creating_topic = False

    def _term(self, group_id: str) -> _Term:
        if not is_storable(group_id):
            raise RequestError(ErrorCode.INVALID_GROUP_ID)
        term = self._terms.get(self.partition_of(group_id))
        if term is None:
            raise RequestError(ErrorCode.NOT_COORDINATOR)
        if term.phase is _Phase.LOADING:
            raise RequestError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        if term.phase is _Phase.FAILED:
            raise RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return term

    def _active_terms(self) -> list[_Term]:
        return [self._terms[index] for index in sorted(self._terms) if self._terms[index].phase is _Phase.ACTIVE]

    # Effects

    def _perform(self, term: _Term, effects: tuple[Effect, ...]) -> None:
        term.queue.extend(effects)
        if term.is_performing:
            return
        term.is_performing = True
        while term.queue:
            effect = term.queue.popleft()
            match effect:
                case Reply():
                    self._answer(term, effect)
                case Persist():
                    if term.phase is _Phase.ACTIVE:
                        self._append(term, effect)
                case _:
                    assert_never(effect)
        term.is_performing = False
        if term.phase is _Phase.ACTIVE:
            self._watch(term)

    def _answer(self, term: _Term, effect: Reply) -> None:
        assert effect.ticket in term.answers, f"ticket {effect.ticket} was answered before"
        answer = term.answers.pop(effect.ticket)
        try:
            answer(effect.reply)
        except Exception:
            # An answer that cannot be given is its requester's loss; the group goes on.
            log.exception("a reply of groups of %s-%s failed", OFFSETS_TOPIC, term.index)

    def _append(self, term: _Term, effect: Persist) -> None:
        done = partial(self._written, term, effect.write_id)
        partition = self._host.partition(OFFSETS_TOPIC, term.index)
        if partition is None or not partition.is_leader:
            done(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
            return
        builder = BatchBuilder()
        now_ms = self._host.clock.wall_ms()
        for record in effect.records:
            builder.append(now_ms, record.key, record.value)
        partition.append_internal(builder.build(), done)

    def _written(self, term: _Term, write_id: int, error: ErrorCode, base_offset: int) -> None:
        if term.phase is not _Phase.ACTIVE:
            return
        if error == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND:
            # The high watermark has passed it: that it did so with few replicas is no reason to forget it.
            error = ErrorCode.NONE
        if error and base_offset >= 0:
            log.info("groups of %s-%s: a write may be in the log or not: %s", OFFSETS_TOPIC, term.index, error.name)
            self._end(term.index)
            return
        self._perform(term, term.shard.persisted(write_id, error, self._now()))

    def check_invariants(self) -> None:
        """Assert what must hold between two callbacks of the loop."""
        for index, term in self._terms.items():
            assert term.index == index, f"the term of {term.index} is found at {index}"
            assert term.phase is not _Phase.OVER, f"the term of {index} is over, and still there"
            assert not term.queue, f"{len(term.queue)} effects of {index} were not performed"
            assert (term.phase is _Phase.ACTIVE) == term.shard.is_loaded, f"{index} is {term.phase.name}"
            if term.phase is _Phase.ACTIVE:
                term.shard.check_invariants()
                due_ms = term.shard.next_deadline_ms()
                assert due_ms is None or (self._timer is not None and self._timer_ms <= due_ms), (
                    f"{index} has something due at {due_ms} ms, and no timer is set for it"
                )

    # Time

    def _now(self) -> Instant:
        return Instant(self._host.clock.mono_ms(), self._host.clock.wall_ms())

    def _watch(self, term: _Term) -> None:
        deadline_ms = term.shard.next_deadline_ms()
        if deadline_ms is not None and (self._timer is None or deadline_ms < self._timer_ms):
            self._start_timer(deadline_ms)

    def _start_timer(self, deadline_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ms = deadline_ms
        # A delay of nothing could leave the clock where it is, and the timer would fire for ever.
        delay_ms = max(deadline_ms - self._host.clock.mono_ms(), 1)
        self._timer = asyncio.get_running_loop().call_later(delay_ms / 1000, self._time_over)

    def _time_over(self) -> None:
        self._timer = None
        now = self._now()
        for term in self._active_terms():
            deadline_ms = term.shard.next_deadline_ms()
            if deadline_ms is not None and deadline_ms <= now.now_ms:
                self._perform(term, term.shard.tick(now))
            else:
                self._watch(term)


def _replay_batch(shard: GroupShard, chunk: bytes, position: int, header: BatchHeader, at: Instant) -> int:
    if header.is_control:
        return 0
    records = read_records(chunk, position, header)
    for record in records:
        if record.key is not None:
            shard.replay(record.key, record.value, at)
    return len(records)


def _settings(config: BrokerConfig) -> GroupSettings:
    return GroupSettings(
        session_timeout_min_ms=config.group_min_session_timeout_ms,
        session_timeout_max_ms=config.group_max_session_timeout_ms,
        initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
        group_size_max=config.group_max_size,
        offset_metadata_max=config.offset_metadata_max_bytes,
        offsets_retention_ms=config.offsets_retention_minutes * 60_000,
        offsets_retention_check_interval_ms=config.offsets_retention_check_interval_ms,
        write_timeout_ms=config.offsets_commit_timeout_ms,
    )
