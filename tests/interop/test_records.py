"""What one client wrote, that client and every other one reads back unchanged."""

from collections.abc import Callable

import pytest

from tests.interop.agent import Agent
from tests.interop.clients import CLIENTS
from tests.interop.conftest import Pool
from tests.interop.samples import CODECS, PARTITIONS, Record, in_order, shapes, without_offsets
from tests.interop.toolchains import Client

written: dict[str, tuple[str, list[Record]]] = {}


@pytest.mark.parametrize("codec", CODECS)
def test_records_come_back_as_they_were_sent_in_every_compression(
    agent: Agent, client: Client, codec: str, name: str, make_topic: Callable[..., str]
) -> None:
    """Keys, values, headers, timestamps and nulls survive the way through the brokers, and offsets count from 0."""
    topic = make_topic(name, PARTITIONS)
    records = shapes(client.cannot)
    each = len(records) // PARTITIONS

    places = agent.produce(topic, records, codec=codec)
    read = agent.consume(topic, len(records))

    assert [[partition, offset] for partition in range(PARTITIONS) for offset in range(each)] == places
    assert in_order(records) == without_offsets(read)


@pytest.mark.parametrize("writer", CLIENTS)
def test_records_are_read_by_every_client_whoever_wrote_them(
    agent: Agent, writer: str, pool: Pool, make_topic: Callable[..., str]
) -> None:
    """A topic that holds batches in all compressions reads the same in every language."""
    if writer not in written:
        records = shapes(CLIENTS[writer].cannot)
        author = pool.of(CLIENTS[writer])
        topic = make_topic(f"written-by-{writer}", PARTITIONS)
        for codec in CODECS:
            author.produce(topic, records, codec=codec)
        written[writer] = (topic, in_order(records * len(CODECS)))
    topic, expected = written[writer]

    read = agent.consume(topic, len(expected))

    assert sorted(expected, key=repr) == sorted(without_offsets(read), key=repr)
