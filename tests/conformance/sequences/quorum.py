"""DescribeQuorum: who decides, and who follows. Numbers of the metadata log are no facts and not compared."""

from tests.conformance.apis import DESCRIBE_QUORUM, every
from tests.conformance.requests import METADATA_TOPIC, describe_quorum
from tests.conformance.steps import Action, Name, broker, exact, sequence, topic

VERSIONS = every(DESCRIBE_QUORUM)


@sequence(*VERSIONS)
def description(version: int) -> list[Action]:
    """One partition, led by a live broker, all brokers vote."""
    return [describe_quorum(version)]


@sequence(*VERSIONS)
def every_broker(version: int) -> list[Action]:
    """Any broker takes the request."""
    return [describe_quorum(version, to=broker(rank)) for rank in range(3)]


@sequence(*VERSIONS, t=topic((0,)))
def other_topics(version: int) -> list[Action]:
    """There is a quorum for the metadata only."""
    return [
        describe_quorum(version, {"t": [0]}),
        describe_quorum(version, {exact("nope"): [0, 1]}),
        describe_quorum(version, [(METADATA_TOPIC, (0,)), (Name("t"), (0,))]),
    ]


@sequence(*VERSIONS)
def other_partitions(version: int) -> list[Action]:
    """The metadata have one partition."""
    return [
        describe_quorum(version, [(METADATA_TOPIC, (1,))]),
        describe_quorum(version, [(METADATA_TOPIC, (0, 1))]),
        describe_quorum(version, [(METADATA_TOPIC, (-1,))]),
    ]


@sequence(*VERSIONS)
def nothing(version: int) -> list[Action]:
    """No topics, no partitions, a partition twice."""
    return [
        describe_quorum(version, {}),
        describe_quorum(version, [(METADATA_TOPIC, ())]),
        describe_quorum(version, [(METADATA_TOPIC, (0, 0))]),
    ]
