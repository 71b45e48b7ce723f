"""What clients run into at the edges: sizes, odd offsets, compacted topics, topics that are not there yet."""

from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.cluster import LocalCluster
from tests.interop.samples import CODECS
from tests.patience import eventually

BATCH = 50


def deliver(bootstrap: str, topic: str, values: list[bytes], *, key: bytes | None = b"key", **settings: object) -> None:
    """Send values as one batch if they fit; raise what the brokers said of them."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50, **settings})
    errors: list[KafkaError] = []
    for value in values:
        producer.produce(topic, value, key, 0, on_delivery=lambda error, _: error and errors.append(error))
    assert producer.flush(20) == 0
    if errors:
        raise KafkaException(errors[0])


def read(bootstrap: str, topic: str, offset: int, count: int, **settings: object) -> list[tuple[int, bytes]]:
    """Return offset and value of records from an offset on."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", "fetch.wait.max.ms": 50, **settings})
    consumer.assign([TopicPartition(topic, 0, offset)])
    messages = []
    eventually(
        lambda: messages.extend(message for message in consumer.consume(count, 0.1) if message.error() is None),
        lambda _: len(messages) >= count,
    )
    consumer.close()
    return [(message.offset(), message.value()) for message in messages]


@pytest.mark.parametrize("codec", CODECS)
def test_reading_begins_in_the_middle_of_a_batch(
    codec: str, three_brokers: LocalCluster, name: str, make_topic: Callable[..., str]
) -> None:
    """The broker sends the whole batch that holds the offset, and the client drops what lies before it."""
    topic = make_topic(name)
    values = [b"%d" % number for number in range(BATCH)]
    deliver(three_brokers.bootstrap, topic, values, **{"compression.type": codec})

    assert list(enumerate(values))[33:] == read(three_brokers.bootstrap, topic, 33, BATCH - 33)


def test_batch_is_sent_when_it_is_larger_than_the_reader_asked_for(
    three_brokers: LocalCluster, name: str, make_topic: Callable[..., str]
) -> None:
    """The first batch always comes whole (KIP-74): a small fetch size slows a reader, and never stops it."""
    topic = make_topic(name)
    values = [bytes([number]) * 200_000 for number in range(4)]
    deliver(three_brokers.bootstrap, topic, values)
    small = {"fetch.message.max.bytes": 1000, "fetch.max.bytes": 1000, "message.max.bytes": 1000}

    assert list(enumerate(values)) == read(three_brokers.bootstrap, topic, 0, len(values), **small)


def test_batch_is_refused_when_it_is_larger_than_the_topic_allows(
    three_brokers: LocalCluster, name: str, make_topic: Callable[..., str]
) -> None:
    """max.message.bytes holds, and a smaller batch goes through on the same connection."""
    topic = make_topic(name, **{"max.message.bytes": "1000"})

    with pytest.raises(KafkaException) as refused:
        deliver(three_brokers.bootstrap, topic, [b"x" * 2000])
    deliver(three_brokers.bootstrap, topic, [b"x" * 500])

    assert refused.value.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE


def test_record_without_key_is_refused_by_a_compacted_topic(
    three_brokers: LocalCluster, name: str, make_topic: Callable[..., str]
) -> None:
    """A record that compaction could never place is not taken in."""
    topic = make_topic(name, **{"cleanup.policy": "compact"})

    with pytest.raises(KafkaException) as refused:
        deliver(three_brokers.bootstrap, topic, [b"value"], key=None)

    assert refused.value.args[0].code() == KafkaError.INVALID_RECORD


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_record_is_readable_whatever_its_writer_waited_for(
    acks: str, three_brokers: LocalCluster, name: str, make_topic: Callable[..., str]
) -> None:
    """acks=0 is not answered at all, and yet nothing is lost while all is well."""
    topic = make_topic(name)

    deliver(three_brokers.bootstrap, topic, [b"value"], acks=acks)

    assert [(0, b"value")] == read(three_brokers.bootstrap, topic, 0, 1)


def test_topic_appears_when_it_is_first_written_to(three_brokers: LocalCluster, name: str, admin: AdminClient) -> None:
    """Topics are created on demand, as clients' own tests take for granted."""
    deliver(three_brokers.bootstrap, name, [b"value"])

    assert name in admin.list_topics(timeout=10).topics
    assert [(0, b"value")] == read(three_brokers.bootstrap, name, 0, 1)


def test_commit_keeps_the_text_beside_the_offset(
    three_brokers: LocalCluster, name: str, make_topic: Callable[..., str]
) -> None:
    """Metadata that a consumer commits comes back unchanged, without it and with it."""
    topic = make_topic(name, 2)
    consumer = Consumer({"bootstrap.servers": three_brokers.bootstrap, "group.id": name})
    places = [TopicPartition(topic, 0, 3, "noted: ü"), TopicPartition(topic, 1, 4)]

    consumer.commit(offsets=places, asynchronous=False)
    committed = consumer.committed([TopicPartition(topic, partition) for partition in (0, 1)], 10)
    consumer.close()

    assert [(3, "noted: ü"), (4, None)] == [(each.offset, each.metadata or None) for each in committed]
