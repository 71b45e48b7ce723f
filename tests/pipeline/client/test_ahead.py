"""Reading ahead of many partitions gives each record once, from real brokers and through failures."""

import contextlib
import socket

import pytest

from syncline.model.ids import TopicPartition
from syncline.pipeline.client.ahead import Ahead, Span
from syncline.pipeline.client.cluster import Cluster, Whereabouts
from syncline.pipeline.client.offsets import LATEST
from syncline.pipeline.client.settings import ClientSettings
from syncline.pipeline.decoding.chunks import decode
from syncline.pipeline.decoding.headers import Part
from syncline.pipeline.errors import BrokerError

pytestmark = pytest.mark.process

PARTITIONS = 7


@pytest.fixture(scope="module")
def topic(broker) -> str:
    """A topic of some partitions on three leaders, partition n holding 40 n records of 100 bytes."""
    name = broker.topic(PARTITIONS)
    broker.produce(
        name,
        [(n, None, b"%d-%d" % (n, k) + b"." * 90, 1_000 + k, ()) for n in range(PARTITIONS) for k in range(40 * n)],
        **{"batch.size": 2_000},
    )
    return name


def _settings(bootstrap: str, **changes: int) -> ClientSettings:
    addresses = [part.rpartition(":") for part in bootstrap.split(",")]
    return ClientSettings(tuple((host, int(port)) for host, _, port in addresses), **changes)


def _spans(cluster: Cluster, topic: str) -> dict[TopicPartition, Span]:
    places = cluster.partitions([topic])
    return {place: Span(0, end) for place, end in cluster.offsets(dict.fromkeys(places, LATEST)).items()}


def _offsets(ahead: Ahead, spans: dict[TopicPartition, Span]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for answer in ahead.answers():
        for item in answer:
            span, fetched = spans[item.place], item.fetched
            part = Part(*item.place, fetched.start, fetched.end, item.offset, span.end, fetched.aborted)
            for decoded in decode(fetched.answer, [part], ["offset"]):
                found.setdefault(item.place.partition, []).extend(decoded.columns["offset"].to_pylist())
    return found


@pytest.mark.parametrize("fetch_bytes", [1_000, 20_000, 8 << 20])
def test_ahead_reads_every_record_once(bootstrap: str, topic: str, fetch_bytes: int) -> None:
    """Guards: each task reads many partitions through one connection per leader with multi-partition requests.

    Whether an answer holds one batch, some or all partitions, every offset arrives once and in order.
    """
    with Cluster(_settings(bootstrap, fetch_bytes_max=fetch_bytes)) as cluster:
        spans = _spans(cluster, topic)

        found = _offsets(Ahead(cluster, spans), spans)

        assert found == {n: list(range(40 * n)) for n in range(1, PARTITIONS)}
        assert len(cluster._connections.by_address) <= 3


def test_ahead_has_the_next_answer_under_way_while_one_is_worked_on(bootstrap: str, topic: str) -> None:
    """Guards: pipelined prefetch: whoever works on an answer has the next question sent."""
    place = TopicPartition(topic, 6)
    with Cluster(_settings(bootstrap, fetch_bytes_max=3_000)) as cluster:
        answers = Ahead(cluster, {place: Span(0, 240)}).answers()
        next(answers)

        assert cluster.awaits(cluster.leader(place))


def test_ahead_asks_again_when_it_was_told_the_wrong_leaders(bootstrap: str, topic: str) -> None:
    """What the planning process knew may be old when a task starts: an answer says so, and metadata mends it."""
    with Cluster(_settings(bootstrap)) as cluster:
        spans = _spans(cluster, topic)
        known = cluster.whereabouts(spans)
    turned = dict(zip(sorted(known.brokers), [*sorted(known.brokers)[1:], min(known.brokers)], strict=True))
    moved = Whereabouts(known.brokers, {place: turned[leader] for place, leader in known.leaders.items()})

    with Cluster.known(_settings(bootstrap), moved) as cluster:
        found = _offsets(Ahead(cluster, spans), spans)

    assert found == {n: list(range(40 * n)) for n in range(1, PARTITIONS)}


def test_ahead_goes_on_when_connections_break(bootstrap: str, topic: str) -> None:
    """An answer that was on its way is asked for again, and nothing before it."""
    with Cluster(_settings(bootstrap, fetch_bytes_max=2_000)) as cluster:
        spans = _spans(cluster, topic)
        found: dict[TopicPartition, int] = dict.fromkeys(spans, 0)

        for number, answer in enumerate(Ahead(cluster, spans).answers()):
            for item in answer:
                assert item.offset == found[item.place]
                found[item.place] = item.next_offset
            for connection in cluster._connections.by_address.values() if number % 5 == 0 else ():
                with contextlib.suppress(OSError):
                    connection.stream.shutdown(socket.SHUT_RDWR)

    assert found == {place: span.end for place, span in spans.items()}


def test_ahead_says_what_is_gone_and_reads_the_rest(broker, bootstrap: str) -> None:
    """A partition whose offset was deleted is reported once, and may be moved to what is left."""
    name = broker.topic(2)
    broker.produce(name, [(n, None, b"v", 1_000, ()) for n in range(2) for _ in range(10)])
    broker.delete_records(name, 1, 6)
    spans = {TopicPartition(name, n): Span(2, 10) for n in range(2)}
    gone = []

    with Cluster(_settings(bootstrap)) as cluster:
        ahead = Ahead(cluster, spans)
        reached = {}
        for answer in ahead.answers():
            for item in answer:
                if item.is_gone:
                    gone.append((item.place.partition, item.offset))
                    ahead.move(item.place, Span(6, 10))
                else:
                    reached.setdefault(item.place.partition, item.offset)

    assert gone == [(1, 2)]
    assert reached == {0: 2, 1: 6}


def test_ahead_gives_up_when_a_partition_does_not_exist(bootstrap: str, topic: str) -> None:
    """The error says what was read and where."""
    wanted = {TopicPartition(topic, PARTITIONS): Span(0, 1)}

    with Cluster(_settings(bootstrap, patience_ms=1)) as cluster, pytest.raises(BrokerError, match="could not fetch"):
        list(Ahead(cluster, wanted).answers())
