"""What goes into and comes out of the group coordinator, free of wire versions.

The API modules translate requests into these values, and replies back into the
version of the request; the rules know of versions only the few facts that change
behaviour (`is_member_id_required`, `can_skip_assignment`,
`knows_group_id_not_found`).

A ticket identifies one request that waits for its answer: the shell passes it
in, the rules return it in a `Reply`, exactly once. Null strings of the protocol
are None.

Units: `*_ms` milliseconds; in an `Instant`, `now_ms` is monotonic (deadlines)
and `wall_ms` Unix time (what is stored).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from syncline.core.groups.records import GroupRecord
from syncline.model.errors import ErrorCode
from syncline.model.ids import NONE, Offset
from syncline.model.immutable import Immutable

Ticket: TypeAlias = int


class Instant(NamedTuple):
    """The two times of one event."""

    now_ms: int
    wall_ms: int


class GroupState(Enum):
    """The state of a classic group; the values are Kafka's names."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


# Both phases of a rebalance.
REBALANCES: Final = frozenset({GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE})


class Protocol(NamedTuple):
    """One protocol that a member offers, with the member's metadata for it."""

    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class GroupSettings(Immutable):
    """The broker configs that the rules of groups obey."""

    session_timeout_min_ms: int = 6_000
    session_timeout_max_ms: int = 1_800_000
    initial_rebalance_delay_ms: int = 3_000
    group_size_max: int = 2_147_483_647
    # The memory that the members of one group may take. What is stored of a group is one record, far smaller.
    group_bytes_max: int = 16 << 20
    offset_metadata_max: int = 4_096
    offsets_retention_ms: int = 10_080 * 60_000
    offsets_retention_check_interval_ms: int = 600_000
    write_timeout_ms: int = 5_000
    # How long the coordinator keeps a new member's parked Join: the client cannot heartbeat yet, and the rules do not
    # see it disconnect.
    new_member_join_timeout_ms: int = 300_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class JoinRequest(Immutable):
    """JoinGroup. `member_id` "" asks for a new member."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[Protocol, ...]
    is_member_id_required: bool
    can_skip_assignment: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class SyncRequest(Immutable):
    """SyncGroup. Only the leader's `assignments` count; type and name are None below v5."""

    member_id: str
    group_instance_id: str | None
    generation: int
    protocol_type: str | None
    protocol_name: str | None
    assignments: Mapping[str, bytes]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class MemberIdentity(Immutable):
    """A member that leaves: by member id, or, with member id "", by instance."""

    member_id: str
    group_instance_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class OffsetToCommit(Immutable):
    """One partition of an OffsetCommit; `expire_timestamp_ms` is NONE unless v2-4 asked for a retention time."""

    topic: str
    partition: int
    offset: Offset
    leader_epoch: int
    metadata: str
    expire_timestamp_ms: int = NONE


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class CommitRequest(Immutable):
    """OffsetCommit, reduced to the partitions that exist."""

    member_id: str
    group_instance_id: str | None
    generation: int
    offsets: tuple[OffsetToCommit, ...]
    knows_group_id_not_found: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class JoinedMember(Immutable):
    """A member, as the reply to the leader's Join lists it."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class JoinReply(Immutable):
    """Answer to a Join; the defaults are those of an error."""

    error: ErrorCode
    member_id: str = ""
    generation: int = NONE
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    members: tuple[JoinedMember, ...] = ()
    skip_assignment: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class SyncReply(Immutable):
    """Answer to a Sync."""

    error: ErrorCode
    assignment: bytes = b""
    protocol_type: str | None = None
    protocol_name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class HeartbeatReply(Immutable):
    """Answer to a Heartbeat."""

    error: ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class LeaveReply(Immutable):
    """Answer to a Leave: one error for the whole, and one per member in the order of the request."""

    error: ErrorCode
    members: tuple[tuple[MemberIdentity, ErrorCode], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class CommitReply(Immutable):
    """Answer to an OffsetCommit: the error of each offset, in the order of the request."""

    errors: Sequence[ErrorCode]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class DeleteReply(Immutable):
    """Answer to the deletion of one group."""

    error: ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class OffsetDeleteReply(Immutable):
    """Answer to an OffsetDelete: one error for the whole, or one per (topic, partition)."""

    error: ErrorCode
    errors: Mapping[tuple[str, int], ErrorCode]


AnyReply: TypeAlias = (
    JoinReply | SyncReply | HeartbeatReply | LeaveReply | CommitReply | DeleteReply | OffsetDeleteReply
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class MemberDescription(Immutable):
    """A member as DescribeGroups shows it."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class GroupDescription(Immutable):
    """A group as DescribeGroups and ListGroups show it."""

    group_id: str
    state: GroupState
    protocol_type: str
    protocol_name: str
    members: tuple[MemberDescription, ...]
    rebalances_since_ms: int | None
    """By the wall clock; None while the group does not rebalance."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class GroupStatistics(Immutable):
    """A short view of a group, for status displays."""

    group_id: str
    state: GroupState
    generation: int
    member_count: int


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Reply(Immutable):
    """Answer the request of `ticket`."""

    ticket: Ticket
    reply: AnyReply


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Persist(Immutable):
    """Append `records` to the log; report their fate with `GroupShard.persisted(write_id, ...)`, in log order."""

    write_id: int
    records: tuple[GroupRecord, ...]


Effect: TypeAlias = Reply | Persist
