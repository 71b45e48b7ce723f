"""The group coordinator of one broker: one `Term` per led partition of the offsets topic.

`core/groups` has the rules; this module connects them to log, clock and callers.

    request -> term.shard -> effects -> Reply:   the caller's callback
                                     -> Persist: one batch appended to the partition; the shard gets the result

Timers: one timer of the loop for all terms, at the earliest deadline.

Invariant: at most one term per partition, and while one is active the timer is set for its next deadline or earlier.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from typing import Final
from uuid import UUID

from syncline.core.groups.groups import GroupShard
from syncline.core.groups.messages import (
    CommitReply,
    CommitRequest,
    DeleteReply,
    GroupDescription,
    GroupSettings,
    HeartbeatReply,
    JoinReply,
    JoinRequest,
    LeaveReply,
    MemberIdentity,
    OffsetDeleteReply,
    SyncReply,
    SyncRequest,
)
from syncline.core.groups.records import CommittedOffset, GroupRecordError, is_storable
from syncline.model.broker_config import BrokerConfig
from syncline.model.errors import ErrorCode, RequestError
from syncline.model.ids import OFFSETS_TOPIC
from syncline.node.groups.log_renewal import LogRenewals
from syncline.node.groups.offsets_topic import OffsetsTopic
from syncline.node.groups.port import GroupsHost
from syncline.node.groups.replay import replay
from syncline.node.groups.term import Act, Answer, OneReply, Phase, Term, instant_now
from syncline.records.errors import DecodeError
from syncline.storage.errors import DamagedLogError, StorageError

log = logging.getLogger("syncline.groups")

# The members of a group may take this many times the memory of the largest record, which stores what they agree on.
GROUP_RECORDS: Final = 16
GROUP_BYTES_MIN: Final = 16 << 20

# How long a term that failed unexpectedly waits before it reads its log again: what failed once may fail again.
AGAIN_S: Final = 1.0
# How long groups whose log is damaged wait until it is read again.
MENDED_S: Final = 10.0


class GroupCoordinator:
    """All groups whose coordinator this broker is."""

    def __init__(self, host: GroupsHost) -> None:
        self._host = host
        # A random generator of its own: the number of joins must not change the random numbers of other parts.
        self._dice = random.Random(host.rng.getrandbits(64))  # noqa: S311 - ids need no secrecy
        self._topic = OffsetsTopic(host)
        self._terms: dict[int, Term] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0
        self.renewals = LogRenewals(host, self._active_terms)

    def became_leader(self, partition_index: int, leader_epoch: int) -> None:
        """Take over the groups of a partition, or continue their term under a new leader epoch."""
        term = self._terms.get(partition_index)
        if term is not None and term.phase is Phase.ACTIVE:
            # A lost write would have ended the term, so the shard still equals the log.
            term.leader_epoch = max(term.leader_epoch, leader_epoch)
            return
        if term is not None and term.leader_epoch >= leader_epoch:
            return
        self.resigned(partition_index)
        dice = self._dice
        shard = GroupShard(
            _settings(self._host.config),
            lambda: str(UUID(int=dice.getrandbits(128), version=4)),
            self._host.commits.term_began(partition_index),
        )
        term = self._terms[partition_index] = Term(
            self._host,
            partition_index,
            leader_epoch,
            shard,
            on_doubt=self.resigned,
            on_failure=self._failed,
            on_deadline=self._watch,
        )
        self._host.spawn(self._load(term))

    def resigned(self, partition_index: int) -> None:
        """Give up the groups of a partition that this broker no longer leads."""
        term = self._terms.pop(partition_index, None)
        if term is not None:
            self._host.commits.term_ended(partition_index)
            term.end()

    def close(self) -> None:
        """Answer all waiting requests, and stop."""
        for partition_index in sorted(self._terms):
            self.resigned(partition_index)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def _load(self, term: Term) -> None:
        partition = self._host.partition(OFFSETS_TOPIC, term.index)
        try:
            if partition is None:
                raise RequestError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the replica is not here")
            record_count = await replay(self._host, term, partition.read_committed_batches(0))
        except RequestError as error:
            log.info("groups of %s-%s are not loaded: %s", OFFSETS_TOPIC, term.index, error)
            if self._terms.get(term.index) is term:
                self.resigned(term.index)
            return
        except (DamagedLogError, DecodeError) as error:
            # What was read before it is no state: groups would begin anew, or go back to older commits.
            if term.phase is Phase.LOADING:
                _give_up(term, self._host)
                # If this broker leads on, since no other can, the log may be mended meanwhile.
                self._failed(term, MENDED_S)
            if partition is not None and partition.is_leader:
                log.error("groups of %s-%s wait for an undamaged log: %s", OFFSETS_TOPIC, term.index, error)
                self._host.damaged(term.index, str(error))
            # Else the topic was deleted, and its files went under the worker that read them.
            return
        except (GroupRecordError, StorageError, OSError):
            log.exception("groups of %s-%s cannot be loaded", OFFSETS_TOPIC, term.index)
            if term.phase is Phase.LOADING:
                _give_up(term, self._host)
            return
        if term.phase is Phase.LOADING:
            term.move_to(Phase.ACTIVE)
            level = logging.INFO if record_count else logging.DEBUG
            log.log(level, "groups of %s-%s are loaded: %s records", OFFSETS_TOPIC, term.index, record_count)
            term.act(lambda shard, at: shard.loaded(at))
            if term.deleted_topics:
                term.act(lambda shard, at: shard.forget_topics(tuple(term.deleted_topics), at))

    # Requests. The answer comes at once or later, exactly once.

    def join(self, group_id: str, request: JoinRequest, answer: Answer[JoinReply]) -> None:
        """JoinGroup. While the broker's memory for clients is full, members are told to come back."""
        if not self._host.memory.room_bytes():
            answer(JoinReply(error=ErrorCode.COORDINATOR_NOT_AVAILABLE, member_id=request.member_id))
            return
        self._submit(
            group_id,
            lambda shard, ticket, at: shard.join(ticket, group_id, request, at),
            answer,
            # As Kafka's: a broker that does not coordinate the group has nothing to say of its members.
            lambda error: JoinReply(
                error=error, member_id=request.member_id if error is ErrorCode.INVALID_GROUP_ID else ""
            ),
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
            # As in Kafka: a member must not stop its heartbeats because its coordinator is still loading.
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
        """OffsetCommit; the group "" is a group like any other."""
        self._submit(
            group_id,
            lambda shard, ticket, at: shard.commit(ticket, group_id, request, at),
            answer,
            lambda error: CommitReply(errors=[error] * len(request.offsets)),
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
        """Delete the offsets of deleted topics."""
        for index in sorted(self._terms):
            term = self._terms[index]
            if term.phase is Phase.LOADING:
                term.deleted_topics.update(dict.fromkeys(names))
            elif term.phase is Phase.ACTIVE:
                term.act(lambda shard, at: shard.forget_topics(names, at))

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
        term.submit(act, answer)

    # Answers from committed state. They raise `RequestError` if this broker cannot answer.

    def offsets_of(self, group_id: str) -> dict[str, dict[int, CommittedOffset]]:
        """Return the committed offsets of a group by topic and partition."""
        stored = self._term(group_id).shard.offsets_of(group_id)
        return {topic: dict(partitions) for topic, partitions in stored.items()}

    def describe(self, group_id: str) -> GroupDescription | None:
        """Return the description of a group; None if it does not exist."""
        return self._term(group_id).shard.describe(group_id)

    def list_groups(self) -> tuple[GroupDescription, ...]:
        """Return the groups that this broker coordinates, without their members."""
        if any(term.phase is Phase.LOADING for term in self._terms.values()):
            raise RequestError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return tuple(group for term in self._active_terms() for group in term.shard.list_groups())

    def partition_of(self, group_id: str) -> int:
        """Return the partition of the offsets topic that holds a group."""
        return self._topic.partition_of(group_id)

    def create_topic(self) -> None:
        """Ask the controller to create the offsets topic; the metadata shows it a moment later."""
        self._topic.create()

    def _term(self, group_id: str) -> Term:
        if not is_storable(group_id):
            raise RequestError(ErrorCode.INVALID_GROUP_ID)
        term = self._terms.get(self.partition_of(group_id))
        if term is None:
            raise RequestError(ErrorCode.NOT_COORDINATOR)
        if term.phase is Phase.LOADING:
            raise RequestError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        if term.phase is Phase.FAILED:
            raise RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return term

    def _active_terms(self) -> list[Term]:
        return [self._terms[index] for index in sorted(self._terms) if self._terms[index].phase is Phase.ACTIVE]

    def check_invariants(self) -> None:
        """Assert what must hold between two callbacks of the loop."""
        for index, term in self._terms.items():
            assert term.index == index, f"the term of {term.index} is found at {index}"
            term.check_invariants()
            if term.phase is Phase.ACTIVE:
                due_ms = term.shard.next_deadline_ms()
                assert due_ms is None or (self._timer is not None and self._timer_ms <= due_ms), (
                    f"{index} has something due at {due_ms} ms, and no timer is set for it"
                )

    def _watch(self, deadline_ms: int) -> None:
        """Check the terms at this time, or earlier."""
        if self._timer is not None:
            if self._timer_ms <= deadline_ms:
                return
            self._timer.cancel()
        self._timer_ms = deadline_ms
        # With a delay of 0 the clock might not advance, and the timer would fire for ever.
        delay_ms = max(deadline_ms - self._host.clock.mono_ms(), 1)
        self._timer = asyncio.get_running_loop().call_later(delay_ms / 1000, self._time_over)

    def _time_over(self) -> None:
        self._timer = None
        at = instant_now(self._host)
        for term in self._active_terms():
            deadline_ms = term.shard.next_deadline_ms()
            if deadline_ms is not None and deadline_ms <= at.now_ms:
                term.act(lambda shard, at: shard.tick(at))
            elif deadline_ms is not None:
                self._watch(deadline_ms)

    def _failed(self, term: Term, after_s: float = AGAIN_S) -> None:
        """Read a term's log again, after a while, if this broker still leads the partition."""
        index = term.index
        if self._terms.get(index) is not term:
            return
        if term.phase is not Phase.FAILED:
            del self._terms[index]
            self._host.commits.term_ended(index)

        def again() -> None:
            partition = self._host.partition(OFFSETS_TOPIC, index)
            if self._terms.get(index, term) is term and partition is not None and partition.is_leader:
                self.resigned(index)
                self.became_leader(index, term.leader_epoch)

        asyncio.get_running_loop().call_later(after_s, again)


def _give_up(term: Term, host: GroupsHost) -> None:
    """Let the groups of a term wait whose log cannot be read to its end."""
    term.move_to(Phase.FAILED)
    # Else commits from before the place that cannot be read would be shown as the groups' last ones.
    host.commits.term_ended(term.index)


def _settings(config: BrokerConfig) -> GroupSettings:
    return GroupSettings(
        session_timeout_min_ms=config.group_min_session_timeout_ms,
        session_timeout_max_ms=config.group_max_session_timeout_ms,
        initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
        group_size_max=config.group_max_size,
        group_bytes_max=max(GROUP_BYTES_MIN, GROUP_RECORDS * config.message_max_bytes),
        offset_metadata_max=config.offset_metadata_max_bytes,
        offsets_retention_ms=config.offsets_retention_minutes * 60_000,
        offsets_retention_check_interval_ms=config.offsets_retention_check_interval_ms,
        write_timeout_ms=config.offsets_commit_timeout_ms,
    )
