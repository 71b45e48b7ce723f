"""Attacks by what is in a Produce: batches that must be opened, that expand, that contradict themselves."""

from collections.abc import Sequence
from typing import Final

from syncline.records.batch import HEADER_BYTES, BatchHeader
from syncline.records.builder import BatchBuilder, assemble
from syncline.records.compression import Codec
from syncline.wire.api import ApiKey, response_header_version
from syncline.wire.produce import parse_produce_response
from tests.attack.case import Size
from tests.attack.frames import PRODUCE_VERSION, produce_frame
from tests.attack.scene import COMPACTED, TARGET, Scene
from tests.attack.stream import Stream
from tests.record_batches import build_batch

TIMESTAMP_MS: Final = 1_700_000_000_000
BOMB_BYTES: Final = 128 << 20
# Behind the size: the correlation id, and tags in flexible versions.
HEAD_BYTES: Final = 4 + response_header_version(ApiKey.PRODUCE, PRODUCE_VERSION)


def many_records(scene: Scene, size: Size) -> Sequence[Stream]:
    """Compressed batches of `count` records each, for a compacted topic: the leader has to look at every key."""
    builder = BatchBuilder()
    for _ in range(size.count):
        builder.append(TIMESTAMP_MS, b"k", None)
    produce = produce_frame(COMPACTED, bytes(builder.build(Codec.GZIP)))
    port = scene.leader_port(COMPACTED)
    return [Stream(port=port, data=[produce], connections=size.connections, answers=1)]


def each_codec(scene: Scene, size: Size) -> Sequence[Stream]:
    """One batch by each codec, for a compacted topic: its leader loads the code of all of them."""
    records = [(TIMESTAMP_MS, b"k", bytes(size.count))]
    frames = [produce_frame(COMPACTED, bytes(build_batch(records, compression=codec))) for codec in Codec]
    return [Stream(port=scene.leader_port(COMPACTED), data=frames, connections=len(frames), answers=1)]


def bombs(scene: Scene, size: Size) -> Sequence[Stream]:
    """Batches of one record of many zeros, compressed by each codec."""
    frames = []
    for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD):
        batch = build_batch([(TIMESTAMP_MS, b"k", bytes(BOMB_BYTES // 100 * size.count))], compression=codec)
        if len(batch) < 1 << 20:
            frames.append(produce_frame(COMPACTED, bytes(batch)))
    port = scene.leader_port(COMPACTED)
    return [Stream(port=port, data=frames, connections=size.connections, answers=1)]


def wrong_counts(scene: Scene, size: Size) -> Sequence[Stream]:
    """Batches whose count contradicts their records, in either direction and by little or much.

    Uncompressed ones must be refused; compressed ones stay closed (docs/divergences.md).
    """
    port = scene.leader_port(TARGET)
    streams = []
    for codec, judge in ((Codec.NONE, refused), (Codec.GZIP, None)):
        produce = _contradicting(size.count, codec)
        streams.append(Stream(port=port, data=produce, connections=len(produce), answers=1, judge=judge))
    return streams


def _contradicting(record_count: int, codec: Codec) -> list[bytes]:
    """Return a Produce for each wrong count."""
    sound = build_batch([(TIMESTAMP_MS, b"key", b"value %d" % n) for n in range(record_count)], compression=codec)
    header = BatchHeader.parse(sound, 0)
    counts = (-1, 0, 1, record_count - 1, record_count + 1, 10 * record_count, (1 << 31) - 1)
    wrong = (header._replace(record_count=count, last_offset_delta=count - 1) for count in counts)
    return [produce_frame(TARGET, bytes(assemble(each, memoryview(sound)[HEADER_BYTES:]))) for each in wrong]


def refused(answer: bytes) -> str:
    """Return what is wrong with an answer that should have been a refusal."""
    row = parse_produce_response(answer, PRODUCE_VERSION, HEAD_BYTES).topics[0][1][0]
    return "" if row.error_code else "a batch with a wrong count was accepted"
