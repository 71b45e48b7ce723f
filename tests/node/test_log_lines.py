"""Lines that operators read in the logs of brokers, where each subject has one."""

import logging
from collections.abc import Iterator

import pytest

from syncline.model.ids import TopicPartition
from tests.node.wire_client import batch
from tests.node.world import World


@pytest.fixture
def lines() -> Iterator[list[str]]:
    """Return what brokers log, as it comes."""
    found: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: found.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("syncline.node").addHandler(handler)
    yield found
    logging.getLogger("syncline.node").removeHandler(handler)


@pytest.mark.brokers(3)
async def test_stopping_broker_tells_of_its_connections_once(world: World, lines: list[str]) -> None:
    """Guards: a broker with a thousand clients wrote the same line a thousand times."""
    clients = [await world.client() for _ in range(9)]
    await world.node(1).stop()
    for client in clients:
        await client.lost()

    told = [each for each in lines if "the broker is stopping" in each]
    assert len(told) == 1
    assert told[0].startswith("closing ")
    assert not any(each.startswith("closing the connection of") for each in lines)


@pytest.mark.brokers(1, log_retention_check_interval_ms=1000)
async def test_retention_tells_which_records_it_deleted_and_why(world: World, lines: list[str]) -> None:
    """In words, not as a program would write it."""
    await world.topic(retention_ms=1)
    client = await world.client()
    await client.produce("t", batch(3))
    await world.until(lambda: world.broker().partitions[TopicPartition("t", 0)].log.log_start == 3)

    (told,) = (each for each in lines if "deleted offsets" in each)
    assert told.startswith("t-0: deleted offsets 0 to 2, ")
    assert told.endswith(" bytes: retention time 1ms breach")
