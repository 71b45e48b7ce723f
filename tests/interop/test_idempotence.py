"""An idempotent producer that must send again writes nothing twice and keeps its order."""

import time
from collections.abc import Callable

from tests.cluster import LocalCluster
from tests.interop.agent import Agent
from tests.interop.samples import numbered, without_offsets

WARM_UP = 5
COUNT = 40
REQUEST_TIMEOUT_MS = 1000
STALL_S = 1.6


def test_idempotent_producer_writes_once_and_in_order_when_the_leader_stalls(
    agent: Agent, name: str, make_topic: Callable[..., str], three_brokers: LocalCluster
) -> None:
    """The leader wakes to requests that their sender gave up, and to the same records on a new connection."""
    topic = make_topic(name)
    how = {"codec": "none", "idempotent": True, "request_timeout_ms": REQUEST_TIMEOUT_MS, "singly": True}
    agent.produce(topic, numbered(WARM_UP), **how)
    (described,) = agent.do("describe_topic", topic=topic)
    records = numbered(COUNT, start=WARM_UP)

    three_brokers.pause(described["leader"])
    try:
        sending = agent.send_records(topic, records, **how)
        time.sleep(STALL_S)
    finally:
        three_brokers.resume(described["leader"])
    places = agent.answer(sending)
    read = agent.consume(topic, WARM_UP + COUNT)

    assert [[0, offset] for offset in range(WARM_UP, WARM_UP + COUNT)] == places
    assert [*numbered(WARM_UP), *records] == without_offsets(read)
    assert [0, WARM_UP + COUNT] == agent.do("list_offsets", topic=topic, partition=0, timestamp_ms=0)[:2]
