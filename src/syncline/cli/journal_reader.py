"""Reading the journal as a client: the events since a given time, in order.

While the broker that leads the journal is silent, it is read from a follower, which knows all but the last moment.
Users run `why` while a broker is silent, so it does not wait for the next leader.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias

from syncline.cli.ends import known_offsets
from syncline.cli.journal_copies import Copied, read_copy
from syncline.cli.target import SILENT_S, client_config, sentence_of, topic_names
from syncline.local.layout import LocalClusterError
from syncline.model.events import Event, EventDecodeError, from_json
from syncline.model.ids import JOURNAL_TOPIC

# How long the leader may take to its first answer, if there are followers.
LEADER_S = 2.0
BATCH = 1_000
# Whether a record is of use, by the first bytes of its value, which show the type of the event, and by its key.
Wanted: TypeAlias = Callable[[bytes, bytes], bool]
_SAMPLES = (b'"type":"follower_progress"', b'"type":"acknowledgements"')
_HEAD_BYTES = 60


class JournalSilentError(LocalClusterError):
    """The journal exists, and cannot be read now."""


class Journal(NamedTuple):
    """The events; `began_ms` is when the journal began, if that was later than the requested time, else 0.

    `remark` says that they may lack the last moment, and why; it may be empty.
    """

    events: list[Event]
    began_ms: int
    remark: str = ""


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

    Raises JournalSilentError if neither its leader nor a follower answers.
    """
    leader, followers = _holders(admin)
    if followers:
        try:
            # If the leader is only slow, a follower tells the same.
            return _try(servers, admin, since_ms, wanted, until_ms, leader, LEADER_S)
        except JournalSilentError:
            copied = _from_follower(servers, since_ms, wanted, until_ms, leader, followers)
            if copied is not None:
                return copied
    return _try(servers, admin, since_ms, wanted, until_ms, leader, SILENT_S)


def _holders(admin: Any) -> tuple[int, list[int]]:
    """Return the leader of the journal, and the other brokers that have all of it; raises if there is no journal."""
    topic = topic_names(admin).get(JOURNAL_TOPIC)
    if topic is None or 0 not in topic.partitions:
        raise LocalClusterError(
            f"this cluster has no topic {JOURNAL_TOPIC}, and decisions are explained from that topic. Brokers "
            "write it unless they run with journal.enable=false; they create it some seconds after the first "
            "start."
        )
    known = topic.partitions[0]
    return known.leader, [broker for broker in known.isrs if broker != known.leader]


def _from_follower(
    servers: str, since_ms: int, wanted: Wanted, until_ms: int | None, leader: int, followers: list[int]
) -> Journal | None:
    def is_useful(record: Copied) -> bool:
        return wanted(record.value[:_HEAD_BYTES], record.key)

    copy = read_copy(servers, followers, since_ms, until_ms, is_useful)
    if copy is None:
        return None
    events = list(_events(record.value for record in copy.records))
    silent = (
        f"Broker {leader} leads the journal and did not answer in time"
        if leader >= 0
        else "The journal has no leader now"
    )
    remark = f"{silent}: this is from the copy on broker {copy.broker}, which may lack the last moment."
    return Journal(events, events[0].ts_ms if events and copy.is_from_start else 0, remark)


def _events(values: Iterable[bytes]) -> Iterator[Event]:
    for value in values:
        try:
            yield from_json(value)
        except EventDecodeError:
            # A client wrote this record; it is not an event.
            continue


def _try(
    servers: str, admin: Any, since_ms: int, wanted: Wanted, until_ms: int | None, leader: int, patience_s: float
) -> Journal:
    """Return the events from the leader, to whose first answer `patience_s` may pass."""
    from confluent_kafka import Consumer, TopicPartition
    from confluent_kafka.admin import OffsetSpec

    advice = _advice(leader)
    consumer = Consumer(client_config(servers, **{"group.id": "syncline-cli", "enable.auto.commit": False}))
    try:
        end = _offset(admin, leader, OffsetSpec.latest(), advice, patience_s)
        asked = [TopicPartition(JOURNAL_TOPIC, 0, max(0, at_ms)) for at_ms in (since_ms, until_ms) if at_ms is not None]
        found = [_offset_at(consumer, each, advice) for each in asked]
        start = found[0]
        if until_ms is not None and 0 <= found[1] < end:
            end = found[1]
        if start < 0 or start >= end:
            return Journal([], 0)
        earliest = _offset(admin, leader, OffsetSpec.earliest(), advice, SILENT_S)
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


def _offset(admin: Any, leader: int, spec: Any, advice: str, patience_s: float) -> int:
    troubles: dict[tuple[str, int], str] = {}
    found = known_offsets(admin, {(JOURNAL_TOPIC, 0): leader}, spec, troubles, patience_s=patience_s)
    for why in troubles.values():
        raise JournalSilentError(f"cannot read the journal: {why}. {advice}")
    return found[JOURNAL_TOPIC, 0]


def _read(consumer: Any, end: int, wanted: Wanted, advice: str) -> list[Event]:
    values: list[bytes] = []
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
            if at < end and wanted(value[:_HEAD_BYTES], message.key() or b""):
                values.append(value)
        if messages:
            deadline_s = time.monotonic() + SILENT_S
        elif time.monotonic() > deadline_s:
            raise JournalSilentError(f"cannot read the journal: no records arrived for {SILENT_S:.0f} s. {advice}")
    return list(_events(values))
