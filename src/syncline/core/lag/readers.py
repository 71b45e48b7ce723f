"""Which group a reader belongs to: a Fetch request names a client and not a group.

One hard idea: a guess would be worse than none, because it blames a group for another one's reads. A reader is
attributed if exactly one group has a member with its client id and host to which the partition is assigned. Two
programs with one client id on one host, which read one partition for two groups, cannot be told apart: they are shown
as a client. So is a reader without a group.
"""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from syncline.model.ids import TopicPartition


class ReaderKey(NamedTuple):
    """Who fetches from a partition, as its leader sees it."""

    client_id: str
    host: str
    partition: TopicPartition


class MemberAssignment(NamedTuple):
    """What a member of a group may read, as the group's coordinator sees it."""

    group_id: str
    member_id: str
    client_id: str
    host: str
    """As coordinators show it: with a slash in front, or without."""
    partitions: AbstractSet[TopicPartition]


def attribute(
    readers: Iterable[ReaderKey], members: Iterable[MemberAssignment]
) -> Mapping[ReaderKey, MemberAssignment | None]:
    """Return the member that each reader is; None if there is none, or if several fit.

    Members of one group never share a partition for long: while they do, during a rebalance, both fit.
    """
    fitting: dict[ReaderKey, list[MemberAssignment]] = {}
    for member in members:
        for partition in member.partitions:
            key = ReaderKey(member.client_id, member.host.removeprefix("/"), partition)
            fitting.setdefault(key, []).append(member)
    found: dict[ReaderKey, MemberAssignment | None] = {}
    for reader in readers:
        fits = fitting.get(reader._replace(host=reader.host.removeprefix("/")), [])
        found[reader] = fits[0] if len(fits) == 1 else None
    assert all(member is None or reader.partition in member.partitions for reader, member in found.items()), (
        "a reader is a member that may not read the partition"
    )
    return found
