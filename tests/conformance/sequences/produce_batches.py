"""Produce: batches that are broken, odd, compressed or dated; whatever was accepted is read back."""

from tests.conformance.apis import PRODUCE, edges
from tests.conformance.batches import GZIP, LZ4, SNAPPY, ZSTD, Batch, Now, Record, batch, sized
from tests.conformance.requests import fetch, list_offsets, produce
from tests.conformance.steps import Action, Batches, Pause, sequence, topic

HOUR_MS = 3_600_000


def _each(version: int, *candidates: object) -> list[Action]:
    """Send each candidate to the same partition, then read what was stored."""
    return [*(produce(version, {"t": {0: each}}) for each in candidates), fetch(12, {"t": {0: 0}})]


@sequence(3, 8, 9, 11, t=topic((0,)))
def corrupt(version: int) -> list[Action]:
    """A wrong checksum, a length too short, garbage and no length at all are 2."""
    return _each(
        version,
        batch("a", bad_checksum=True),
        batch("a", length_error=-1),
        batch("a", length_error=-(61 - 12 + 8)),
        b"\x07" * 100,
        b"\0" * 61,
        batch("a", magic=3),
        batch("a", magic=-1),
    )


@sequence(3, 8, 9, 11, t=topic((0,)))
def invalid(version: int) -> list[Action]:
    """Empty records, old formats, lengths beyond the end and headers that contradict themselves are 87."""
    return _each(
        version,
        b"",
        batch("a", magic=0),
        batch("a", magic=1),
        batch("a", length_error=1),
        batch("a", cut_bytes=1),
        batch("a").__class__(records=(Record(),), cut_bytes=40),
        batch("a", count=0),
        batch("a", count=-1),
        batch("a", count=2),
        batch("a", "b", count=1),
        batch("a", last_offset_delta=-1),
        batch("a", last_offset_delta=5),
        batch("a", base_offset=3),
        batch("a", attributes=0x20),
        batch("a", producer_id=9_000_000_001, producer_epoch=0, base_sequence=-1),
        batch(Record(headers=((None, b"x"),))),
    )


@sequence(9, t=topic((0,)))
def empty_batch(version: int) -> list[Action]:
    """A batch without records is 87."""
    return _each(version, Batch(), Batch(count=0, last_offset_delta=0))


@sequence(9, t=topic((0,)))
def two_batches(version: int) -> list[Action]:
    """Two batches in one partition are 87, whatever the second one is worth."""
    return _each(version, Batches((batch("a"), batch("b"))), Batches((batch("a"), batch("b", bad_checksum=True))))


@sequence(9, t=topic((0,)))
def bytes_behind(version: int) -> list[Action]:
    """An incomplete tail is dropped in silence; zeros that look like a header are 2."""
    return _each(version, batch("a", suffix=b"\1"), batch("b", suffix=b"\0" * 11), batch("c", suffix=b"\0" * 61))


@sequence(9, t=topic((0,)))
def wrong_deltas(version: int) -> list[Action]:
    """The broker ignores the offsets inside an uncompressed batch."""
    return _each(
        version,
        batch(Record(b"a", offset_delta=0), Record(b"b", offset_delta=2), last_offset_delta=1),
        batch(Record(b"a", offset_delta=1), Record(b"b", offset_delta=0)),
    )


@sequence(9, t=topic((0,)))
def wrong_deltas_compressed(version: int) -> list[Action]:
    """Compressed batches are looked into."""
    return _each(
        version, batch(Record(b"a", offset_delta=0), Record(b"b", offset_delta=2), last_offset_delta=1, codec=GZIP)
    )


@sequence(7, 11, t=topic((0,)))
def codecs(version: int) -> list[Action]:
    """All four codecs are accepted from v7."""
    return _each(version, *(batch("a" * 200, "b" * 200, codec=codec) for codec in (GZIP, SNAPPY, LZ4, ZSTD)))


@sequence(3, 6, 7, t=topic((0,)))
def zstd(version: int) -> list[Action]:
    """Zstandard needs v7: 76 before."""
    return _each(version, batch("a", codec=ZSTD))


@sequence(3, 11, t=topic((0,)))
def unknown_codecs(version: int) -> list[Action]:
    """Codec bits that mean nothing."""
    return [produce(version, {"t": {0: batch("a", attributes=codec)}}) for codec in (5, 6, 7)]


@sequence(9, t=topic((0,)))
def undecodable(version: int) -> list[Action]:
    """Bodies that no codec can read."""
    garbage = b"\x07" * 40
    return [
        produce(
            version,
            {"t": {0: Batch(codec=codec, body=garbage, count=1, last_offset_delta=0, max_timestamp=1_700_000_000_000)}},
        )
        for codec in (GZIP, SNAPPY, LZ4, ZSTD)
    ]


@sequence(*edges(PRODUCE), t=topic((0,)))
def rewritten_fields(version: int) -> list[Action]:
    """The leader epoch is overwritten; unused attribute bits stay."""
    return _each(
        version,
        batch("a", leader_epoch=7),
        batch("b", attributes=0x80),
        batch("c", attributes=0x100),
        batch("d", attributes=0x40),
    )


@sequence(9, t=topic((0,)))
def wrong_max_timestamp(version: int) -> list[Action]:
    """The largest timestamp of a batch is corrected."""
    return [
        *_each(
            version,
            batch("a", max_timestamp=-1),
            batch("b", max_timestamp=1_700_000_000_500),
            batch("c", max_timestamp=5),
        ),
        list_offsets(7, {"t": {0: -3}}),
    ]


@sequence(3, 11, t=topic((0,)))
def old_timestamps(version: int) -> list[Action]:
    """Missing, zero, negative and very old timestamps are accepted."""
    return _each(version, *(batch("a", base_timestamp=at) for at in (-1, -2, 0, 1_400_000_000_000)))


@sequence(3, 8, 11, t=topic((0,)))
def future_timestamps(version: int) -> list[Action]:
    """More than an hour ahead is 32, a little less is fine."""
    return [
        produce(version, {"t": {0: batch("a", base_timestamp=Now(61 * 60 * 1000))}}),
        produce(version, {"t": {0: batch("a", base_timestamp=Now(59 * 60 * 1000))}}),
        produce(
            version, {"t": {0: batch("a", Record(b"b", b"k", timestamp_delta=2 * HOUR_MS), "c", base_timestamp=Now())}}
        ),
    ]


@sequence(8, t=topic((0,), message_timestamp_before_max_ms="3600000", message_timestamp_after_max_ms="60000"))
def timestamp_limits(version: int) -> list[Action]:
    """Configured limits hold on both sides; -1 passes."""
    return [
        produce(version, {"t": {0: batch("a", base_timestamp=at)}})
        for at in (Now(-2 * HOUR_MS), Now(-HOUR_MS // 2), Now(2 * 60_000), Now(30_000), -1)
    ]


@sequence(*edges(PRODUCE), t=topic((0,)))
def append_time_bit(version: int) -> list[Action]:
    """On a CreateTime topic the append-time bit of a client is cleared."""
    return _each(version, batch("a", attributes=0x08))


@sequence(3, 8, 11, t=topic((0,), message_timestamp_type="LogAppendTime"))
def append_time_topic(version: int) -> list[Action]:
    """On a LogAppendTime topic the broker dates the batch, and tells."""
    return [
        produce(version, {"t": {0: batch("a", Record(b"b", b"k", timestamp_delta=5))}}),
        Pause(10),  # The two batches must not be of the same millisecond.
        produce(version, {"t": {0: batch("c", base_timestamp=Now(2 * HOUR_MS))}}),
        fetch(12, {"t": {0: 0}}),
        produce(version, {"t": {0: batch("d", attributes=0x08)}}),
        list_offsets(7, {"t": {0: -3}}),
    ]


@sequence(9, t=topic((0,), message_timestamp_type="LogAppendTime"))
def append_time_compressed(version: int) -> list[Action]:
    """Compressed batches are dated too."""
    return _each(version, batch("a", codec=GZIP))


@sequence(9, t=topic((0,), compression_type="gzip"))
def topic_compresses(version: int) -> list[Action]:
    """A topic of another codec is written in its codec."""
    return _each(version, batch("a" * 100), batch("b" * 100, codec=LZ4))


@sequence(9, t=topic((0,), compression_type="uncompressed"))
def topic_decompresses(version: int) -> list[Action]:
    """A topic that is uncompressed is written so."""
    return _each(version, batch("a" * 100, codec=GZIP))


@sequence(9, t=topic((0,)))
def headers_and_nulls(version: int) -> list[Action]:
    """Headers, null keys, null values and empty values come back as they were sent."""
    return _each(
        version,
        batch(
            Record(b"a", b"k", headers=((b"h", b"1"), (b"h", None), (b"", b""))),
            Record(None, b"k"),
            Record(b"", b""),
            Record(None, None),
        ),
    )


@sequence(9, t=topic((0,)))
def largest_default(version: int) -> list[Action]:
    """The default limit is 1 MiB and 12 bytes."""
    return [produce(version, {"t": {0: sized(1_048_588)}}), produce(version, {"t": {0: sized(1_048_589)}})]


@sequence(9, t=topic((0,)))
def producer_fields(version: int) -> list[Action]:
    """A producer id without an epoch, and a sequence without a producer, are accepted."""
    return _each(
        version,
        batch("a", producer_id=9_000_000_001, producer_epoch=-1, base_sequence=0),
        batch("b", base_sequence=5),
    )


@sequence(3, 6, 7, 11, t=topic((0,), max_message_bytes="100"))
def too_large_and_of_an_unknown_codec(version: int) -> list[Action]:
    """Up to v6 the codec is looked at first, since it must not be zstd."""
    return _each(version, sized(200, attributes=7), batch("a", attributes=7))


@sequence(3, 11, t=topic((0,)))
def times_before_none(version: int) -> list[Action]:
    """A batch whose records are all older than -1, which is no time, has none."""
    return _each(version, batch("a", "b", base_timestamp=-2), batch("a", Record(b"b", b"k", 5), base_timestamp=-100))


@sequence(7, 11, t=topic((0,)))
def append_time_without_a_time(version: int) -> list[Action]:
    """The bit of append time is cleared if there is a time, and refused if there is none."""
    bit = 0x08
    return _each(
        version,
        batch("a", "b", attributes=bit),
        batch("a", "b", attributes=bit, base_timestamp=-1),
        batch("a", "b", attributes=bit, base_timestamp=-1, max_timestamp=5),
    )


@sequence(8, 11, t=topic((0,)), u=topic((0,), message_timestamp_before_max_ms="3600000"))
def append_time_of_all_records(version: int) -> list[Action]:
    """With the bit of append time, each record has the largest time: within the limits or not, whatever its own is."""
    bit = 0x08
    mixed = (Record(b"a", b"k", 2 * HOUR_MS), Record(b"b", b"k"), Record(b"c", b"k", -1))
    return [
        *_each(
            version,
            Batch(records=mixed, attributes=bit, base_timestamp=Now()),
            Batch(records=mixed, attributes=bit | SNAPPY, codec=SNAPPY, base_timestamp=Now()),
            batch("a", attributes=bit, base_timestamp=-2),
        ),
        *(
            produce(
                version, {"u": {0: batch("a", Record(b"b", b"k", delta), attributes=bit, base_timestamp=Now(-old))}}
            )
            for delta, old in ((0, 3 * HOUR_MS), (3 * HOUR_MS, 3 * HOUR_MS))
        ),
    ]


@sequence(
    8,
    t=topic((0,), cleanup_policy="compact"),
    u=topic(cleanup_policy="compact", message_timestamp_type="LogAppendTime"),
)
def without_a_key_and_wrongly_dated(version: int) -> list[Action]:
    """A record without a key is refused for that, whatever its time."""
    bit = 0x08
    return [
        *_each(
            version,
            batch("a", key=None, base_timestamp=Now(2 * HOUR_MS)),
            batch("a", "b", key=None, attributes=bit, base_timestamp=-1),
        ),
        produce(version, {"u": {0: batch("a", key=None, attributes=bit)}}),
    ]


@sequence(7, 11, t=topic((0,), message_timestamp_type="LogAppendTime"))
def append_time_of_several_records(version: int) -> list[Action]:
    """Where brokers set the time, the bit is refused for each record."""
    return [produce(version, {"t": {0: batch("a", "b", attributes=0x08)}})]
