"""The two requests of a login, by hand: SaslHandshake 1 and SaslAuthenticate 2 (KIP-43, KIP-152, KIP-368).

They are read before either side is authenticated, so each length is checked, and a message that is cut short is a
`ConnectionError`: the peer does not speak Kafka.

Units: milliseconds; a lifetime of 0 means that the session does not end.
"""

import struct
from typing import Final, NamedTuple

from syncline.pipeline.client.messages import Api

SASL_HANDSHAKE: Final = Api(17, 1, is_flexible=False)
SASL_AUTHENTICATE: Final = Api(36, 2, is_flexible=True)
_VARINT_BYTES_MAX: Final = 5


class Handshake(NamedTuple):
    """The answer to SaslHandshake: an error code and the mechanisms that the listener has."""

    code: int
    mechanisms: tuple[str, ...]


class Authenticated(NamedTuple):
    """The answer to SaslAuthenticate: an error code with a message, or the next token and the session's lifetime."""

    code: int
    message: str
    token: bytes
    lifetime_ms: int


def handshake_request(mechanism: str) -> bytes:
    """Return the question whether the listener has this mechanism."""
    return struct.pack(f">h{len(mechanism)}s", len(mechanism), mechanism.encode())


def handshake_answer(view: memoryview) -> Handshake:
    """Return the content of an answer."""
    reader = _Reader(view)
    code, count = reader.numbers(">hi")
    return Handshake(code, tuple(reader.text(reader.numbers(">h")[0]) for _ in range(min(count, len(view)))))


def authenticate_request(token: bytes) -> bytes:
    """Return the message that carries one token of the mechanism."""
    return _varint(len(token) + 1) + token + b"\0"


def authenticate_answer(view: memoryview) -> Authenticated:
    """Return the content of an answer."""
    reader = _Reader(view)
    (code,) = reader.numbers(">h")
    message = reader.text(reader.varint() - 1)
    token = reader.bytes_(reader.varint() - 1)
    (lifetime_ms,) = reader.numbers(">q")
    return Authenticated(code, message, token, max(lifetime_ms, 0))


class _Reader:
    """A position in a message; negative lengths stand for null, which is read as empty."""

    def __init__(self, view: memoryview) -> None:
        self._view = view
        self._position = 0

    def bytes_(self, size: int) -> bytes:
        found = bytes(self._view[self._position : self._position + max(size, 0)])
        if len(found) < size:
            raise ConnectionError("the response is cut short")
        self._position += len(found)
        return found

    def text(self, size: int) -> str:
        return self.bytes_(size).decode(errors="replace")

    def numbers(self, form: str) -> tuple[int, ...]:
        return struct.unpack(form, self.bytes_(struct.calcsize(form)))

    def varint(self) -> int:
        value = 0
        for index in range(_VARINT_BYTES_MAX):
            (byte,) = self.bytes_(1)
            value |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                return value
        raise ConnectionError("the response has an unterminated length")


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
