"""The journal as a client reads it: the events since a time, in order."""

import time
from typing import Any

from syncline.cli.target import client_config, guarded, offsets, sentence_of, topic_names
from syncline.local.layout import LocalClusterError
from syncline.model.events import Event, EventDecodeError, from_json
from syncline.model.ids import JOURNAL_TOPIC

READ_TIMEOUT_S = 20.0
BATCH = 1_000


def read_journal(servers: str, admin: Any, since_ms: int) -> list[Event]:
    """Return the events of the journal since a Unix time, up to what is there now."""
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
            lambda: consumer.offsets_for_times([TopicPartition(JOURNAL_TOPIC, 0, since_ms)], timeout=READ_TIMEOUT_S),
        )[0].offset
        if start < 0 or start >= end:
            return []
        consumer.assign([TopicPartition(JOURNAL_TOPIC, 0, start)])
        return _read(consumer, end)
    finally:
        consumer.close()


def _read(consumer: Any, end: int) -> list[Event]:
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
            try:
                events.append(from_json(message.value() or b""))
            except EventDecodeError:
                # Somebody else's record.
                continue
        if messages:
            deadline_s = time.monotonic() + READ_TIMEOUT_S
        elif time.monotonic() > deadline_s:
            raise LocalClusterError(
                f"the journal could not be read to its end within {READ_TIMEOUT_S:.0f} s. Is its leader up?"
            )
    return events
