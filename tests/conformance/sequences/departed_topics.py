"""Administration while a broker is away: assignments that name it, replication factors that need it, and log sizes."""

from tests.conformance.apis import DESCRIBE_LOG_DIRS, every
from tests.conformance.batches import batch
from tests.conformance.requests import (
    create_partitions,
    create_topics,
    delete_records,
    describe_log_dirs,
    fetch,
    metadata,
    new_topic,
    produce,
)
from tests.conformance.settings import DEPARTED
from tests.conformance.steps import Action, BrokerNumber, Departure, broker, sequence, topic

WORLD = DEPARTED
B0, B1, B3 = BrokerNumber(0), BrokerNumber(1), BrokerNumber(3)
HIGH_WATERMARK = "responses.0.partitions.0.high_watermark"


@sequence(2, 5, 7)
def assignment_with_a_broker_that_is_away(version: int) -> list[Action]:
    """It is known, so it may be assigned; the first living replica leads (F01)."""
    settled = {"topics.0.partitions.0.error_code": 0}
    return [
        Departure(),
        create_topics(version, new_topic("n", assignments={0: [B3, B0, B1]})),
        metadata(9, ["n"], settle=settled),
    ]


@sequence(2, 7)
def assignment_without_anybody_alive(version: int) -> list[Action]:
    """Somebody must be able to lead."""
    return [Departure(), create_topics(version, new_topic("n", assignments={0: [B3]}))]


@sequence(2, 7)
def replication_factor_of_all_brokers(version: int) -> list[Action]:
    """Brokers that are away count among those that can be assigned; more than there are cannot."""
    return [
        Departure(),
        create_topics(version, new_topic("four", 1, 4)),
        create_topics(version, new_topic("five", 1, 5)),
    ]


@sequence(0, 3, t=topic((0, 1)))
def partitions_on_a_broker_that_is_away(version: int) -> list[Action]:
    """The same for partitions that are added."""
    return [
        Departure(),
        create_partitions(version, ("t", 2, [[B3, B1]])),
        create_partitions(version, ("t", 3, [[B3]])),
        create_partitions(version, ("t", 3, [[B3, B3]])),
        metadata(9, ["t"], settle={"topics.0.partitions.1.error_code": 0}),
    ]


@sequence(*every(DESCRIBE_LOG_DIRS), t=topic((0, 1, 3)))
def sizes_and_lags(version: int) -> list[Action]:
    """Leader and follower have the same bytes and lack nothing; a broker without a replica lists none."""
    return [
        Departure(),
        produce(7, {"t": {0: batch("a", "b")}}, to=broker(0), quiet=True),
        *(fetch(11, {"t": {0: 0}}, to=broker(rank), quiet=True, settle={HIGH_WATERMARK: 2}) for rank in (0, 1)),
        *(describe_log_dirs(version, {"t": [0, 1]}, to=broker(rank)) for rank in (0, 1, 2)),
    ]


@sequence(1, 4, t=topic((0, 1)))
def sizes_of_everything(version: int) -> list[Action]:
    """Null asks for all replicas."""
    return [Departure(), describe_log_dirs(version, None, to=broker(0)), describe_log_dirs(version, {}, to=broker(0))]


@sequence(0, 1, 2, t=topic((0, 1, 3)))
def deletion_without_a_replica_that_is_away(version: int) -> list[Action]:
    """The low watermark is that of the living brokers; the one that left does not hold it."""
    return [
        Departure(),
        produce(7, {"t": {0: batch("a", "b", "c")}}, to=broker(0), quiet=True),
        fetch(11, {"t": {0: 0}}, to=broker(0), quiet=True, settle={HIGH_WATERMARK: 3}),
        delete_records(version, {"t": {0: 2}}, to=broker(0)),
        fetch(12, {"t": {0: 1}}, to=broker(0)),
        fetch(12, {"t": {0: 2}}, to=broker(0)),
    ]
