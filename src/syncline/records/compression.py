"""The codecs of a batch's records, as Kafka frames them.

The broker needs them only where it must look inside a batch (look-ups by time,
keys on compacted topics, its own internal topics); the data path never opens a
batch. The first codec that needs `cramjam` imports it.

Frames: gzip is RFC 1952; snappy is the "xerial" stream (a magic of sixteen
bytes, then blocks, each after its size), though some producers send one bare
block; lz4 is the frame format with independent blocks, because Java's reader
refuses dependent ones; zstd is RFC 8878.

A few bytes may expand to gigabytes, so the caller limits the size of the result.
Sizes are bytes. Malformed input raises DecodeError.
"""

import struct
import zlib
from collections.abc import Callable
from enum import IntEnum
from typing import Any, Final

from syncline.records.buffers import Buffer
from syncline.records.errors import DecodeError

# Far above any batch that a sensible max.message.bytes allows, far below what would exhaust the memory.
DECOMPRESSED_BYTES_MAX: Final = 64 << 20

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES: Final = 32 << 10
_BLOCK_SIZE: Final = struct.Struct(">i")
# Version 1, independent blocks of at most 64 KB, no checksums; the last byte is the descriptor's own checksum.
_LZ4_HEADER: Final = bytes.fromhex("04224d18604082")
_LZ4_BLOCK_BYTES: Final = 64 << 10
_LZ4_STORED: Final = 1 << 31
_LZ4_SIZE: Final = struct.Struct("<I")
_ZSTD_LEVEL: Final = 3


class Codec(IntEnum):
    """The codec in bits 0-2 of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def compress(codec: int, data: Buffer) -> bytes:
    """Return `data` as the codec frames it."""
    match codec:
        case Codec.NONE:
            return bytes(data)
        case Codec.GZIP:
            compressor = zlib.compressobj(wbits=31)
            return compressor.compress(data) + compressor.flush()
        case Codec.SNAPPY:
            return _compress_snappy(memoryview(data))
        case Codec.LZ4:
            return _compress_lz4(memoryview(data))
        case Codec.ZSTD:
            import cramjam

            return bytes(cramjam.zstd.compress(data, level=_ZSTD_LEVEL))
        case _:
            raise AssertionError(f"there is no codec {codec}")


def decompress(codec: int, data: Buffer, bytes_max: int = DECOMPRESSED_BYTES_MAX) -> Buffer:
    """Return the decompressed data; raises DecodeError if it is malformed or larger than `bytes_max`."""
    match codec:
        case Codec.NONE:
            return data
        case Codec.GZIP:
            return _decompress_gzip(data, bytes_max)
        case Codec.SNAPPY:
            return _decompress_snappy(memoryview(data), bytes_max)
        case Codec.LZ4:
            import cramjam

            return _decompress_into(cramjam.lz4.decompress_into, "lz4", data, bytes_max)
        case Codec.ZSTD:
            import cramjam

            return _decompress_into(cramjam.zstd.decompress_into, "zstd", data, bytes_max)
        case _:
            raise DecodeError(f"compression {codec} does not exist")


def _decompress_gzip(data: Buffer, bytes_max: int) -> bytes:
    decompressor = zlib.decompressobj(wbits=31)
    try:
        # One byte more than allowed distinguishes "too large" from "just fits".
        out = decompressor.decompress(data, bytes_max + 1)
    except zlib.error as error:
        raise DecodeError(f"gzip: {error}") from None
    if len(out) > bytes_max:
        raise DecodeError(f"gzip: more than {bytes_max} bytes when decompressed")
    if not decompressor.eof:
        raise DecodeError("gzip: the stream ends too early")
    return out


def _decompress_into(function: Callable[[Buffer, bytearray], int], name: str, data: Buffer, bytes_max: int) -> Buffer:
    """Decompress into a buffer that grows until the result fits: the library itself has no limit."""
    from cramjam import DecompressionError

    room = min(max(4 * len(data), 64 << 10), bytes_max)
    while True:
        out = bytearray(room)
        try:
            size = function(data, out)
        except DecompressionError as error:
            # The error keeps this frame, for as long as somebody keeps the error.
            del out
            # The library raises one error for "no room" and "malformed"; only the first disappears with more room.
            if "write whole buffer" not in str(error):
                raise DecodeError(f"{name}: {error}") from None
            if room >= bytes_max:
                raise DecodeError(f"{name}: more than {bytes_max} bytes when decompressed") from None
            room = min(4 * room, bytes_max)
            continue
        return memoryview(out)[:size]


def _compress_lz4(data: memoryview) -> bytes:
    import cramjam

    parts: list[Any] = [_LZ4_HEADER]
    for start in range(0, len(data), _LZ4_BLOCK_BYTES):
        block = data[start : start + _LZ4_BLOCK_BYTES]
        packed = bytes(cramjam.lz4.compress_block(block, store_size=False))
        if len(packed) < len(block):
            parts += (_LZ4_SIZE.pack(len(packed)), packed)
        else:
            parts += (_LZ4_SIZE.pack(len(block) | _LZ4_STORED), block)
    parts.append(bytes(4))
    return b"".join(parts)


def _compress_snappy(data: memoryview) -> bytes:
    import cramjam

    parts = [_XERIAL_MAGIC]
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK_BYTES]))
        parts += (_BLOCK_SIZE.pack(len(block)), block)
    return b"".join(parts)


def _decompress_snappy(data: memoryview, bytes_max: int) -> bytes:
    if data[:8] != _XERIAL_MAGIC[:8]:
        return _decompress_snappy_block(data, bytes_max, bytes_max)
    position = len(_XERIAL_MAGIC)
    out = bytearray()
    while position < len(data):
        if len(data) - position < 4:
            raise DecodeError("snappy: the stream ends inside the size of a block")
        (size,) = _BLOCK_SIZE.unpack_from(data, position)
        position += 4
        if size < 0 or size > len(data) - position:
            raise DecodeError(f"snappy: a block of {size} bytes is announced, {len(data) - position} are left")
        out += _decompress_snappy_block(data[position : position + size], bytes_max - len(out), bytes_max)
        position += size
    return bytes(out)


def _decompress_snappy_block(block: memoryview, room_bytes: int, bytes_max: int) -> bytes:
    import cramjam

    try:
        size = cramjam.snappy.decompress_raw_len(block)
        # The size comes from the block's first bytes: check it before allocating anything.
        out = cramjam.snappy.decompress_raw(block) if size <= room_bytes else None
    except cramjam.DecompressionError as error:
        raise DecodeError(f"snappy: {error}") from None
    if out is None:
        raise DecodeError(f"snappy: more than {bytes_max} bytes when decompressed")
    return bytes(out)
