"""A member of a classic group.

A member is in one of three situations: its Join waits for an answer
(`join_ticket`), its Sync does (`sync_ticket`), or nothing waits and it must
heartbeat. While a request waits the session does not expire, because the client
cannot heartbeat meanwhile. A new member, which does not know its id yet, is the
exception: the coordinator gives up its Join after a bound of its own.

Units: `*_ms` milliseconds.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from syncline.core.groups.member_bytes import MEMBER_BYTES, PROTOCOL_BYTES
from syncline.core.groups.messages import MemberDescription, Protocol, Ticket
from syncline.core.groups.records import StoredMember


@dataclass(slots=True, kw_only=True)
class Member:
    """One member; `protocols` in the order of the member's preference."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[Protocol, ...]
    assignment: bytes = b""
    is_new: bool = False
    join_ticket: Ticket | None = None
    sync_ticket: Ticket | None = None

    @property
    def is_waiting(self) -> bool:
        """Return whether the coordinator holds a request of this member."""
        return self.join_ticket is not None or self.sync_ticket is not None

    @property
    def is_excused(self) -> bool:
        """Return whether the member stays although its session expires now."""
        return self.is_waiting and not self.is_new

    @property
    def size_bytes(self) -> int:
        """Return the memory that the member takes."""
        return MEMBER_BYTES + protocols_bytes(self.protocols)

    def metadata(self, protocol_name: str) -> bytes:
        """Return the member's metadata for a protocol; empty when it does not offer it."""
        return next((protocol.metadata for protocol in self.protocols if protocol.name == protocol_name), b"")

    def vote(self, candidates: list[str]) -> str:
        """Return the first of the member's protocols that is a candidate."""
        assert any(each.name in candidates for each in self.protocols), f"{self.member_id} offers none of {candidates}"
        return next(protocol.name for protocol in self.protocols if protocol.name in candidates)

    def stored(self, protocol_name: str, assignment: bytes) -> StoredMember:
        """Return the stored form of the member with `assignment`."""
        return StoredMember(
            member_id=self.member_id,
            group_instance_id=self.group_instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            session_timeout_ms=self.session_timeout_ms,
            subscription=self.metadata(protocol_name),
            assignment=assignment,
        )

    def described(self, protocol_name: str | None) -> MemberDescription:
        """Return the member's description; without a protocol, only its identity and its last assignment."""
        return MemberDescription(
            member_id=self.member_id,
            group_instance_id=self.group_instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            metadata=b"" if protocol_name is None else self.metadata(protocol_name),
            assignment=self.assignment,
        )


def protocols_bytes(protocols: Iterable[Protocol]) -> int:
    """Return the memory that a member's protocols take."""
    return sum(PROTOCOL_BYTES + len(protocol.name) + len(protocol.metadata) for protocol in protocols)


def restored(stored: StoredMember, protocol_name: str) -> Member:
    """Return the member that was stored."""
    return Member(
        member_id=stored.member_id,
        group_instance_id=stored.group_instance_id,
        client_id=stored.client_id,
        client_host=stored.client_host,
        rebalance_timeout_ms=stored.rebalance_timeout_ms,
        session_timeout_ms=stored.session_timeout_ms,
        protocols=(Protocol(protocol_name, stored.subscription),),
        assignment=stored.assignment,
    )
