"""Reading the journal as a client: the events since a given time, in order."""

import time
from typing import Any, NamedTuple

from syncline.cli.target import client_config, guarded, offsets, sentence_of, topic_names
from syncline.local.layout import LocalClusterError
from syncline.model.events import Event, EventDecodeError, from_json
from syncline.model.ids import JOURNAL_TOPIC

READ_TIMEOUT_S = 20.0
BATCH = 1_000
# A value that begins like this is a progress sample: skip those of other partitions unread.
_SAMPLE = b'"type":"follower_progress"'
_HEAD_BYTES = 60


class Journal(NamedTuple):
    """The events; `began_ms` is when the journal began, if that was later than the requested time, else 0."""

    events: list[Event]
    began_ms: int


def read_journal(servers: str, admin: Any, since_ms: int, key: str) -> Journal:
    """Return the events of the journal from a Unix time up to its present end.

    It leaves out progress samples of partitions other than `key`: there may be a hundred of them per other event.
    """
    from confluent_kafka import Consumer, TopicPartition
    from confluent_kafka.admin import OffsetSpec

    if JOURNAL_TOPIC not in topic_names(admin):
        raise LocalClusterError(
            f"this cluster has no topic {JOURNAL_TOPIC}, from which decisions are explained. Brokers write it unless "
            "they run with journal.enable=false; it is there some seconds after the first start."
        )
    place = TopicPartition(JOURNAL_TOPIC, 0)
    consumer = Consumer(client_config(servers, **{"group.id": "syncline-why", "enable.auto.commit": False}))
    try:
        end = offsets(admin, [place], OffsetSpec.latest())[JOURNAL_TOPIC, 0]
        start = guarded(
            "cannot read the journal",
            lambda: consumer.offsets_for_times(
                [TopicPartition(JOURNAL_TOPIC, 0, max(0, since_ms))], timeout=READ_TIMEOUT_S
            ),
        )[0].offset
        if start < 0 or start >= end:
            return Journal([], 0)
        earliest = offsets(admin, [place], OffsetSpec.earliest())[JOURNAL_TOPIC, 0]
        consumer.assign([TopicPartition(JOURNAL_TOPIC, 0, start)])
        events = _read(consumer, end, key.encode())
        return Journal(events, events[0].ts_ms if events and start <= earliest else 0)
    finally:
        consumer.close()


def _read(consumer: Any, end: int, key: bytes) -> list[Event]:
    events: list[Event] = []
    deadline_s = time.monotonic() + READ_TIMEOUT_S
    at = -1
    while at < end - 1:
        messages = consumer.consume(1, 0.5)
        if messages:
            messages += consumer.consume(BATCH, 0.01)
        for message in messages:
            error = message.error()
            if error is not None:
                if error.fatal() or not error.retriable():
                    raise LocalClusterError(f"cannot read the journal: {sentence_of(error)}")
                continue
            at = message.offset()
            value = message.value() or b""
            if _SAMPLE in value[:_HEAD_BYTES] and message.key() != key:
                continue
            try:
                events.append(from_json(value))
            except EventDecodeError:
                # A client wrote this record; it is not an event.
                continue
        if messages:
            deadline_s = time.monotonic() + READ_TIMEOUT_S
        elif time.monotonic() > deadline_s:
            raise LocalClusterError(
                f"the journal could not be read to its end within {READ_TIMEOUT_S:.0f} s. Is its leader up?"
            )
    return events
