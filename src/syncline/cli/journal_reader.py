"""Reading the journal as a client: the events since a given time, in order.

A broker that leads the journal and is paused gets a successor within seconds, so the journal is tried again for as long
as that may take, each time with the metadata of the moment.
"""

import time
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from syncline.cli.target import SILENT_S, client_config, known_offsets, sentence_of, topic_names
from syncline.local.layout import LocalClusterError
from syncline.model.events import Event, EventDecodeError, from_json
from syncline.model.ids import JOURNAL_TOPIC

# For how long the journal is tried. One try waits `SILENT_S` for an answer, or for the next records.
READ_TIMEOUT_S = 25.0
PAUSE_S = 0.5
BATCH = 1_000
# Whether a record is of use, by the first bytes of its value, which show the type of the event, and by its key.
Wanted: TypeAlias = Callable[[bytes, bytes], bool]
_SAMPLES = (b'"type":"follower_progress"', b'"type":"acknowledgements"')
_HEAD_BYTES = 60


class JournalSilentError(LocalClusterError):
    """The journal exists, and cannot be read now."""


class Journal(NamedTuple):
    """The events; `began_ms` is when the journal began, if that was later than the requested time, else 0."""

    events: list[Event]
    began_ms: int


def read_journal(servers: str, admin: Any, since_ms: int, key: str) -> Journal:
    """Return the events of the journal from a Unix time up to its present end.

    It leaves out progress samples of partitions other than `key`: there may be a hundred of them per other event.
    """
    wanted_key = key.encode()
    return read_events(
        servers,
        admin,
        since_ms,
        lambda head, found: found == wanted_key or not any(sample in head for sample in _SAMPLES),
    )


def of_type(head: bytes, *names: str) -> bool:
    """Return whether the first bytes of a record are those of an event of these types."""
    return any(f'"type":"{name}"'.encode() in head for name in names)


def read_events(servers: str, admin: Any, since_ms: int, wanted: Wanted, until_ms: int | None = None) -> Journal:
    """Return those events from a Unix time up to another one, or to the present end, that are of use.

    Raises JournalSilentError if its leader answers nothing for as long as an election may take.
    """
    deadline_s = time.monotonic() + READ_TIMEOUT_S
    while True:
        try:
            return _try(servers, admin, since_ms, wanted, until_ms)
        except JournalSilentError:
            if time.monotonic() + PAUSE_S >= deadline_s:
                raise
            time.sleep(PAUSE_S)


def _try(servers: str, admin: Any, since_ms: int, wanted: Wanted, until_ms: int | None) -> Journal:
    from confluent_kafka import Consumer, TopicPartition
    from confluent_kafka.admin import OffsetSpec

    topic = topic_names(admin).get(JOURNAL_TOPIC)
    if topic is None or 0 not in topic.partitions:
        raise LocalClusterError(
            f"this cluster has no topic {JOURNAL_TOPIC}, and decisions are explained from that topic. Brokers "
            "write it unless they run with journal.enable=false; they create it some seconds after the first "
            "start."
        )
    advice = _advice(topic.partitions[0].leader)
    place = TopicPartition(JOURNAL_TOPIC, 0)
    consumer = Consumer(client_config(servers, **{"group.id": "syncline-cli", "enable.auto.commit": False}))
    try:
        end = _offset(admin, place, OffsetSpec.latest(), advice)
        asked = [TopicPartition(JOURNAL_TOPIC, 0, max(0, at_ms)) for at_ms in (since_ms, until_ms) if at_ms is not None]
        found = [_offset_at(consumer, each, advice) for each in asked]
        start = found[0]
        if until_ms is not None and 0 <= found[1] < end:
            end = found[1]
        if start < 0 or start >= end:
            return Journal([], 0)
        earliest = _offset(admin, place, OffsetSpec.earliest(), advice)
        consumer.assign([TopicPartition(JOURNAL_TOPIC, 0, start)])
        events = _read(consumer, end, wanted, advice)
        return Journal(events, events[0].ts_ms if events and start <= earliest else 0)
    finally:
        consumer.close()


def _advice(leader: int) -> str:
    """Return what to do if the journal's leader does not answer: the controller elects another one."""
    if leader < 0:
        return "The journal has no leader now. Try again in some seconds, or start the brokers that hold its replicas."
    return (
        f"Broker {leader} leads the journal. If that broker is paused or cannot be reached, another one takes "
        "over in some seconds: try again then."
    )


def _offset_at(consumer: Any, place: Any, advice: str) -> int:
    """Return the first offset whose time is that of `place`, or later; the end if there is none."""
    from confluent_kafka import KafkaException

    try:
        (found,) = consumer.offsets_for_times([place], SILENT_S)
    except KafkaException as error:
        raise JournalSilentError(f"cannot read the journal: {sentence_of(error.args[0])}. {advice}") from None
    if found.error is not None:
        raise JournalSilentError(f"cannot read the journal: {sentence_of(found.error)}. {advice}")
    return int(found.offset)


def _offset(admin: Any, place: Any, spec: Any, advice: str) -> int:
    troubles: dict[tuple[str, int], str] = {}
    found = known_offsets(admin, [place], spec, troubles, timeout_s=SILENT_S)
    for why in troubles.values():
        raise JournalSilentError(f"cannot read the journal: {why}. {advice}")
    return found[JOURNAL_TOPIC, 0]


def _read(consumer: Any, end: int, wanted: Wanted, advice: str) -> list[Event]:
    events: list[Event] = []
    deadline_s = time.monotonic() + SILENT_S
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
            if at >= end or not wanted(value[:_HEAD_BYTES], message.key() or b""):
                continue
            try:
                events.append(from_json(value))
            except EventDecodeError:
                # A client wrote this record; it is not an event.
                continue
        if messages:
            deadline_s = time.monotonic() + SILENT_S
        elif time.monotonic() > deadline_s:
            raise JournalSilentError(f"cannot read the journal: no records arrived for {SILENT_S:.0f} s. {advice}")
    return events
