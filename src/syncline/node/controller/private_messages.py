"""Messages between brokers for which Kafka has none that is suitable.

METADATA_DELTAS (20000): a broker reports the version that it has. The controller
answers as soon as there is a newer one: with the changes of each later version,
or with a snapshot if it no longer keeps those.

    request   broker id i32 | broker epoch i64 | version i64
    answer    error i16 | kind u8 (0 deltas, 1 snapshot) | lease epoch i64 | version i64 | JSON
              deltas: [[version, [change...]]...]; snapshot: [change...]

FORWARD (20001): a client's request on its way to the controller, and back.

    request   key i16 | version i16 | receiving broker i32 | body of the request
    answer    error i16 | body of the answer (if no error)

STOP_TOGETHER (20004): while the whole cluster stops, a broker reports that it appends nothing more and its followers
have everything.

    request   broker id i32 | broker epoch i64
    answer    error i16, when all brokers have reported this, or the time-out has passed

Numbers are big endian, as in Kafka's own messages. What is not exactly such a message raises `DecodeError`.
"""

import json
import struct
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from syncline.coordination.port import Batch
from syncline.model.errors import ErrorCode
from syncline.model.ids import BrokerEpoch, BrokerId
from syncline.model.metadata import MetadataImage
from syncline.model.metadata_json import changes_from_rows, decode_changes, encode_changes
from syncline.wire.errors import DecodeError

Buffer = bytes | bytearray | memoryview

_POLL: Final = struct.Struct(">iqq")
_NEWS: Final = struct.Struct(">hBqq")
_FORWARD: Final = struct.Struct(">hhi")
_ERROR: Final = struct.Struct(">h")
_STOP: Final = struct.Struct(">iq")

_DELTAS: Final = 0
_SNAPSHOT: Final = 1


class Poll(NamedTuple):
    """A broker's poll: the version that it has."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    version: int


class Forwarded(NamedTuple):
    """A client's request, and the broker that received it."""

    key: int
    version: int
    receiver: BrokerId
    body: bytes


class News(NamedTuple):
    """The answer to a poll; `body` is empty when there is an error."""

    error: ErrorCode
    is_snapshot: bool
    lease_epoch: int
    version: int
    body: bytes


def encode_poll(poll: Poll) -> bytes:
    """Return the body of a METADATA_DELTAS request."""
    return _POLL.pack(*poll)


def decode_poll(body: Buffer, position: int) -> Poll:
    """Return the request whose body begins at `position`."""
    broker_id, broker_epoch, version = _whole(_POLL, body, position)
    return Poll(BrokerId(broker_id), BrokerEpoch(broker_epoch), version)


def encode_deltas(batches: Iterable[Batch], lease_epoch: int, version: int) -> bytes:
    """Return an answer with these batches, which lead to `version`."""
    text = ",".join(f"[{batch.version},{batch.text}]" for batch in batches)
    return _NEWS.pack(ErrorCode.NONE, _DELTAS, lease_epoch, version) + f"[{text}]".encode()


def encode_snapshot(image: MetadataImage, lease_epoch: int) -> bytes:
    """Return an answer with a whole image."""
    text = encode_changes(image.as_changes())
    return _NEWS.pack(ErrorCode.NONE, _SNAPSHOT, lease_epoch, image.version) + text.encode()


def encode_no_news(error: ErrorCode) -> bytes:
    """Return a refusal."""
    return _NEWS.pack(error, _DELTAS, 0, 0)


def decode_news(body: Buffer, position: int) -> News:
    """Return the answer whose body begins at `position`, copied."""
    error, kind, lease_epoch, version = _head(_NEWS, body, position)
    return News(
        _error_code(error), kind == _SNAPSHOT, lease_epoch, version, bytes(memoryview(body)[position + _NEWS.size :])
    )


def apply_news(image: MetadataImage, news: News) -> MetadataImage:
    """Return the image after the news; skip batches that it already has."""
    if news.error is not ErrorCode.NONE:
        return image
    if news.is_snapshot:
        return MetadataImage().apply(decode_changes(news.body), news.version)
    for version, rows in json.loads(news.body):
        if version > image.version:
            assert version == image.version + 1, f"metadata version {version} after {image.version}"
            image = image.apply(changes_from_rows(rows), version)
    return image


def encode_forward(key: int, version: int, receiver: BrokerId) -> bytes:
    """Return the head of a FORWARD request; the client's body follows."""
    return _FORWARD.pack(key, version, receiver)


def decode_forward(body: Buffer, position: int) -> Forwarded:
    """Return the request whose body begins at `position`, copied."""
    key, version, receiver = _head(_FORWARD, body, position)
    return Forwarded(key, version, BrokerId(receiver), bytes(memoryview(body)[position + _FORWARD.size :]))


def encode_forward_error(error: ErrorCode) -> bytes:
    """Return the head of a FORWARD answer; without an error, the answer's body follows."""
    return _ERROR.pack(error)


def decode_forward_answer(body: Buffer, position: int) -> tuple[ErrorCode, bytes]:
    """Return the error and the client's answer, copied."""
    (error,) = _head(_ERROR, body, position)
    return _error_code(error), bytes(memoryview(body)[position + _ERROR.size :])


def encode_stop(broker_id: BrokerId, broker_epoch: BrokerEpoch) -> bytes:
    """Return the body of a STOP_TOGETHER request."""
    return _STOP.pack(broker_id, broker_epoch)


def decode_stop(body: Buffer, position: int) -> tuple[BrokerId, BrokerEpoch]:
    """Return the sender, from the request whose body begins at `position`."""
    broker_id, broker_epoch = _whole(_STOP, body, position)
    return BrokerId(broker_id), BrokerEpoch(broker_epoch)


def encode_error(error: ErrorCode) -> bytes:
    """Return an answer that is an error code alone."""
    return _ERROR.pack(error)


def decode_error(body: Buffer, position: int) -> ErrorCode:
    """Return the error code at `position`."""
    (error,) = _whole(_ERROR, body, position)
    return _error_code(error)


def _whole(layout: struct.Struct, body: Buffer, position: int) -> tuple[Any, ...]:
    """Return the fields of a message that has no others."""
    if len(body) - position != layout.size:
        raise DecodeError(f"a private message of {len(body) - position} bytes, it has {layout.size}")
    return layout.unpack_from(body, position)


def _head(layout: struct.Struct, body: Buffer, position: int) -> tuple[Any, ...]:
    """Return the first fields of a message, which more bytes may follow."""
    if len(body) - position < layout.size:
        raise DecodeError(f"a private message of {len(body) - position} bytes, it has at least {layout.size}")
    return layout.unpack_from(body, position)


def _error_code(number: int) -> ErrorCode:
    try:
        return ErrorCode(number)
    except ValueError:
        raise DecodeError(f"there is no error {number}") from None
