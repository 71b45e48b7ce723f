"""Hypothesis strategies that several rooms share: numbers of the protocol, records, batches, messages.

Values are drawn from the ranges that the wire can carry, so that a round trip
loses nothing; names are short, because length is tested elsewhere.
"""

from hypothesis import strategies as st

from syncline.records.builder import BatchBuilder
from syncline.records.compression import Codec
from syncline.wire.endpoints import NodeEndpoint
from syncline.wire.fetch import FetchPartition, FetchRequest
from syncline.wire.fetch_response import FetchedPartition, FetchResponse
from syncline.wire.metadata import MetadataPartition, MetadataTopic
from syncline.wire.produce import ProducedPartition

int16s = st.integers(-(1 << 15), (1 << 15) - 1)
int32s = st.integers(-(1 << 31), (1 << 31) - 1)
int64s = st.integers(-(1 << 63), (1 << 63) - 1)
timestamps = st.integers(0, 1 << 42)
partitions = st.integers(0, 1 << 20)
# kio knows error codes by name, so only existing ones survive a round trip.
error_codes = st.integers(-1, 120)
texts = st.text(max_size=12)
topic_names = st.text(st.sampled_from("abcXYZ019._-é漢"), min_size=1, max_size=12)
# The zero id means "no id" and reads back as that.
topic_ids = st.binary(min_size=16, max_size=16).filter(any)
codecs = st.sampled_from(list(Codec))

headers = st.lists(st.tuples(texts, st.none() | st.binary(max_size=8)), max_size=3).map(tuple)
record_fields = st.tuples(timestamps, st.none() | st.binary(max_size=20), st.none() | st.binary(max_size=60), headers)
leaders = st.none() | st.tuples(st.integers(0, 1 << 20), st.integers(0, 1 << 20))


def batches(compression: st.SearchStrategy[Codec] = codecs) -> st.SearchStrategy[bytes]:
    """Return whole batches as a producer sends them."""
    return st.builds(_batch, st.lists(record_fields, min_size=1, max_size=8), compression)


def _batch(records: list, compression: Codec) -> bytes:
    builder = BatchBuilder()
    for fields in records:
        builder.append(*fields)
    return bytes(builder.build(compression))


def endpoints() -> st.SearchStrategy[list[NodeEndpoint]]:
    """Return addresses of brokers."""
    return st.lists(st.builds(NodeEndpoint, int32s, texts, int32s, st.none() | texts), max_size=3)


def produce_topics() -> st.SearchStrategy[list]:
    """Return what a produce request holds: [(name, [(partition, records or None)])]."""
    entries = st.lists(st.tuples(int32s, st.none() | st.binary(max_size=200)), max_size=4)
    return st.lists(st.tuples(topic_names, entries), max_size=3)


def produced_topics() -> st.SearchStrategy[list]:
    """Return what a produce answer holds."""
    rows = st.builds(
        ProducedPartition,
        partition=int32s,
        error_code=error_codes,
        base_offset=int64s,
        log_append_time_ms=st.just(-1) | timestamps,
        log_start_offset=int64s,
        record_errors=st.just(()) | st.lists(st.tuples(int32s, st.none() | texts), min_size=1, max_size=2),
        error_message=st.none() | texts,
        current_leader=leaders,
    )
    return st.lists(st.tuples(topic_names, st.lists(rows, max_size=3)), max_size=3)


def fetch_requests(version: int) -> st.SearchStrategy[FetchRequest]:
    """Return requests that use every field of `version`, and no other."""
    none = st.just(-1)
    topics = topic_ids if version >= 13 else topic_names
    rows = st.builds(
        FetchPartition,
        partition=int32s,
        current_leader_epoch=int32s if version >= 9 else none,
        fetch_offset=int64s,
        last_fetched_epoch=int32s if version >= 12 else none,
        log_start_offset=int64s if version >= 5 else none,
        partition_max_bytes=int32s,
    )
    # From version 15 on a replica id of -1 leaves no trace, its epoch neither.
    replicas = st.tuples(int32s.filter(lambda number: number != -1), int64s) | st.just((-1, -1))
    if version < 15:
        replicas = st.tuples(int32s, none)
    return st.builds(
        lambda replica, **fields: FetchRequest(replica[0], replica[1], **fields),
        replicas,
        max_wait_ms=int32s,
        min_bytes=int32s,
        max_bytes=int32s,
        isolation_level=st.integers(-128, 127),
        session_id=int32s if version >= 7 else st.just(0),
        session_epoch=int32s if version >= 7 else none,
        topics=st.lists(st.tuples(topics, st.lists(rows, max_size=4)), max_size=3),
        forgotten=st.lists(st.tuples(topics, st.lists(int32s, max_size=4)), max_size=2 if version >= 7 else 0),
        rack_id=texts if version >= 11 else st.just(""),
    )


def fetch_responses(version: int) -> st.SearchStrategy[FetchResponse]:
    """Return answers that use every field of `version`, and no other."""
    tags = version >= 12
    rows = st.builds(
        FetchedPartition,
        partition=int32s,
        error_code=error_codes,
        high_watermark=int64s,
        last_stable_offset=int64s,
        log_start_offset=int64s if version >= 5 else st.just(-1),
        records=st.binary(max_size=100) | st.just(bytes(5000)),
        aborted_transactions=st.none() | st.lists(st.tuples(int64s, int64s), max_size=3),
        preferred_read_replica=int32s if version >= 11 else st.just(-1),
        diverging_epoch=st.none() | st.tuples(partitions, timestamps) if tags else st.none(),
        current_leader=leaders if tags else st.none(),
        append_times=st.just(()),
        unread=st.none(),
    )
    topics = topic_ids if version >= 13 else topic_names
    return st.builds(
        FetchResponse,
        throttle_ms=int32s,
        error_code=error_codes if version >= 7 else st.just(0),
        session_id=int32s if version >= 7 else st.just(0),
        topics=st.lists(st.tuples(topics, st.lists(rows, max_size=3)), max_size=3),
        node_endpoints=endpoints() if version >= 16 else st.just([]),
    )


def metadata_topics() -> st.SearchStrategy[list[MetadataTopic]]:
    """Return rows of a metadata answer."""
    brokers = st.lists(int32s, max_size=4)
    rows = st.builds(MetadataPartition, error_codes, int32s, int32s, int32s, brokers, brokers, brokers)
    topic = st.builds(
        MetadataTopic,
        error_code=error_codes,
        name=topic_names,
        topic_id=topic_ids,
        is_internal=st.booleans(),
        partitions=st.lists(rows, max_size=4),
        authorized_operations=int32s,
    )
    return st.lists(topic, max_size=3)


def damaged(whole: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """Return valid bytes that were cut, changed in places, or replaced in part."""
    return whole.flatmap(_damage)


def _damage(whole: bytes) -> st.SearchStrategy[bytes]:
    places = st.integers(0, max(len(whole) - 1, 0))
    return st.one_of(
        places.map(lambda place: whole[:place]),
        st.tuples(places, st.binary(min_size=1, max_size=5)).map(
            lambda change: whole[: change[0]] + change[1] + whole[change[0] + len(change[1]) :]
        ),
        st.tuples(places, st.binary(max_size=8)).map(lambda change: whole[: change[0]] + change[1]),
    )
