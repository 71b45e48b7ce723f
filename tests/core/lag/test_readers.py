"""Who reads for which group: said only where one group fits."""

from syncline.core.lag.readers import MemberAssignment, ReaderKey, attribute
from syncline.model.ids import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def member(group_id: str, member_id: str, client_id: str, *partitions: TopicPartition) -> MemberAssignment:
    """Return a member on one host, which coordinators show with a slash."""
    return MemberAssignment(group_id, member_id, client_id, "/10.0.0.1", frozenset(partitions))


def test_reader_is_the_member_to_which_the_partition_is_assigned() -> None:
    """Two members with one client id have different partitions."""
    first, second = member("g", "m-1", "app", T0), member("g", "m-2", "app", T1)
    readers = [ReaderKey("app", "10.0.0.1", T0), ReaderKey("app", "10.0.0.1", T1)]

    assert attribute(readers, [first, second]) == {readers[0]: first, readers[1]: second}


def test_reader_that_two_groups_fit_is_nobody() -> None:
    """Two programs with the library's usual client id on one host."""
    reader = ReaderKey("rdkafka", "10.0.0.1", T0)

    assert attribute([reader], [member("g", "m", "rdkafka", T0), member("h", "m", "rdkafka", T0)]) == {reader: None}
    assert attribute([reader], [member("g", "m", "rdkafka", T0), member("h", "m", "rdkafka", T1)]) == {
        reader: member("g", "m", "rdkafka", T0)
    }


def test_reader_without_a_group_is_nobody() -> None:
    """Another client, another host, a partition that is assigned to nobody."""
    readers = [
        ReaderKey("other", "10.0.0.1", T0),
        ReaderKey("app", "10.0.0.2", T0),
        ReaderKey("app", "10.0.0.1", T1),
    ]

    assert attribute(readers, [member("g", "m", "app", T0)]) == dict.fromkeys(readers)
