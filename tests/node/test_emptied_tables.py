"""After many connections and topics have come and gone, no table of a broker keeps their room."""

from typing import Any

import pytest

from syncline.wire.api import ApiKey
from tests.node.world import World
from tests.roomy_tables import roomy_tables

# More than fit into a table that is left alone, so that a forgotten one is found.
MANY = 700


@pytest.mark.brokers(2, is_checked=False)
@pytest.mark.interpreted
async def test_no_table_keeps_the_room_of_what_is_gone(world: World) -> None:
    """Clients that were connected at once, and topics that were listed, led and followed."""
    clients = [await world.client() for _ in range(MANY)]
    names = [f"made-{number}" for number in range(MANY)]
    of_each: dict[str, Any] = {"num_partitions": 1, "replication_factor": 2, "assignments": (), "configs": ()}
    topics = [{"name": name, **of_each} for name in names]
    await clients[0].ask(ApiKey.CREATE_TOPICS, 7, topics=topics, timeout=10_000, validate_only=False)
    await clients[0].ask(ApiKey.METADATA, 1, topics=None)
    await world.until(lambda: len(world.broker().partitions) >= MANY)
    assert roomy_tables(world.broker()) == ""

    deleted = [{"name": name, "topic_id": None} for name in names]
    await clients[0].ask(ApiKey.DELETE_TOPICS, 6, topics=deleted, timeout=10_000)
    await world.until(lambda: not world.broker().partitions)
    for each in clients:
        each.transport.close()
    await world.later(5)

    assert roomy_tables(world.broker()) == ""
