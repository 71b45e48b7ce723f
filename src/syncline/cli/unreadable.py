"""Why a partition gives no records: its next batch is damaged, its leader cannot read it, it has none, or it is gone.

The client library asks again for ever, and says nothing: of what no broker can send it knows only that it did not
come. So the leader is asked once more, without the library, for the batch that is due.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from syncline.cli.direct import BrokerSilentError, Direct
from syncline.model.errors import ErrorCode
from syncline.wire.api import ApiKey

# How long the command waits for a broker. A silent broker may only be slow, so it proves no damage.
PATIENCE_S: Final = 2.0
_NO_SESSION: Final = -1
GONE_ADVICE: Final = "`syncline topics list` lists all topics."
# As much as the library asks for of one partition.
_AT_ONCE_BYTES: Final = 1_048_576


class Unreadable(NamedTuple):
    """A partition that gives nothing, the offset that is due, and the reason in words."""

    partition: int
    offset: int
    why: str
    # What a reader can do if it does not pass; None: somebody may only be late.
    advice: str | None


def behind(partition: int) -> str:
    """Return how to read on behind a damaged batch."""
    return f"`--partition {partition} --from OFFSET` reads on after it."


def unreadable(bootstrap: str, admin: Any, topic: str, places: Mapping[int, int]) -> list[Unreadable]:
    """Return which of these partitions cannot be read from their offsets on, as far as brokers answer in time."""
    from confluent_kafka import KafkaException

    try:
        # A request for this topic alone could create it again, if it was deleted.
        metadata = admin.list_topics(timeout=PATIENCE_S)
    except KafkaException:
        return []
    found = []
    known_topic = metadata.topics.get(topic)
    if known_topic is None:
        return [Unreadable(*each, "the topic was deleted", GONE_ADVICE) for each in sorted(places.items())[:1]]
    led: dict[int, dict[int, int]] = {}
    for partition, offset in places.items():
        known = known_topic.partitions.get(partition)
        if known is None or known.leader not in metadata.brokers:
            found.append(Unreadable(partition, offset, "it has no leader", advice=None))
        else:
            led.setdefault(known.leader, {})[partition] = offset
    with Direct(bootstrap, PATIENCE_S) as cluster:
        cluster.learn({each.id: (each.host, each.port) for each in metadata.brokers.values()})
        for leader, asked in led.items():
            found += _refused(cluster, leader, topic, asked)
    return sorted(found, key=lambda each: each.partition)


def _refused(cluster: Direct, leader: int, topic: str, places: Mapping[int, int]) -> list[Unreadable]:
    partitions = [
        # At least one whole batch comes, however long. What cannot be read is refused as it is to the library.
        {
            "partition": partition,
            "current_leader_epoch": -1,
            "fetch_offset": offset,
            "last_fetched_epoch": -1,
            "log_start_offset": -1,
            "partition_max_bytes": _AT_ONCE_BYTES,
        }
        for partition, offset in places.items()
    ]
    fields = {
        "replica_id": -1,
        "max_wait": 0,
        "min_bytes": 0,
        # A batch of each, also if the first ones are long.
        "max_bytes": (1 << 31) - 1,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": _NO_SESSION,
        "topics": [{"topic": topic, "partitions": partitions}],
        "forgotten_topics_data": [],
        "rack_id": "",
    }
    try:
        answer = cluster.ask_broker(leader, ApiKey.FETCH, fields)
    except BrokerSilentError:
        return []
    found = []
    for row in (each for topic_row in answer.responses for each in topic_row.partitions):
        why = _what_is_wrong(leader, row)
        if why is not None:
            found.append(Unreadable(row.partition_index, places[row.partition_index], why, behind(row.partition_index)))
    return found


def _what_is_wrong(leader: int, row: Any) -> str | None:
    from syncline.records.batch import crc_matches, iterate
    from syncline.records.errors import DecodeError

    if int(row.error_code) == ErrorCode.KAFKA_STORAGE_ERROR:
        return f"its leader, broker {leader}, cannot read that part of the log from disk (KAFKA_STORAGE_ERROR)"
    records = memoryview(row.records or b"")
    if int(row.error_code) or not records:
        return None
    damaged = f"its leader, broker {leader}, has a damaged batch there"
    try:
        position, header = next(iterate(records, 0, len(records)))
    except DecodeError:
        return damaged
    except StopIteration:
        return damaged
    return None if crc_matches(records, position, header) else damaged
