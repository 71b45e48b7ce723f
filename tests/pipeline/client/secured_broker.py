"""A broker of few words, with TLS and SASL: real sockets and real bytes, for what Syncline's brokers do not have yet.

It answers SaslHandshake 1, SaslAuthenticate 2 and Metadata 9 to 12 (itself, no topics) as Apache Kafka does, and
closes the connection where Kafka does. The server's side of each mechanism is written from its RFC, apart from the
client's.
"""

import base64
import hashlib
import hmac
import importlib
import socket
import ssl
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

from kio.schema.types import BrokerId
from kio.static.primitive import i32, i32Timedelta

from syncline.pipeline.client.messages import encoded
from tests.pipeline.client.certificates import Identity
from tests.pipeline.client.serving import serving

USER, PASSWORD, TOKEN = "alice", "correct horse battery", "eyJ.token.value"
SALT, ITERATIONS, SERVER_NONCE = b"salt of the user", 4_096, "ofTheServer"


class RefusedError(Exception):
    """The server refuses with this message."""


@dataclass
class SecuredBroker:
    """What the broker does, and what it has seen."""

    tls: ssl.SSLContext | None = None
    mechanisms: tuple[str, ...] = ()
    lifetime_ms: int = 0
    # Another value ends all sessions.
    session: int = 0
    is_impostor: bool = False
    says: str = ""
    closes_in_login: bool = False
    address: tuple[str, int] = ("", 0)
    logins: list[str] = field(default_factory=list)
    connections: int = 0


@contextmanager
def running(broker: SecuredBroker) -> Iterator[SecuredBroker]:
    """Serve for the length of a with block."""
    with serving(partial(_serve, broker)) as broker.address:
        yield broker


@contextmanager
def answering(said: bytes) -> Iterator[SecuredBroker]:
    """Answer whatever comes with these bytes, and hang up: what a server of another protocol does."""

    def answer(stream: socket.socket) -> None:
        stream.recv(100)
        stream.sendall(said)

    with serving(answer) as address:
        yield SecuredBroker(address=address)


def server_context(identity: Identity, directory, *, clients: str = "") -> ssl.SSLContext:
    """Return a server's context; with `clients`, it wants certificates that this PEM text signs."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(identity.file(directory))
    if clients:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=clients)
    return context


def _serve(broker: SecuredBroker, stream: socket.socket) -> None:
    broker.connections += 1
    if broker.tls is not None:
        with broker.tls.wrap_socket(stream, server_side=True) as encrypted:
            _answer_all(encrypted, broker)
    else:
        _answer_all(stream, broker)


def _answer_all(stream: socket.socket, broker: SecuredBroker) -> None:
    exchange: Iterator | None = None
    session = None if broker.mechanisms else broker.session
    while True:
        (size,) = struct.unpack(">i", _read(stream, 4))
        if not 0 < size < 1 << 20:
            return
        request = _read(stream, size)
        key, version, number, name_bytes = struct.unpack_from(">hhih", request)
        body = request[10 + name_bytes :]
        if key == 17:
            mechanism = body[2:].decode()
            code = 0 if mechanism in broker.mechanisms else 33 if broker.mechanisms else 34
            names = b"".join(struct.pack(f">h{len(each)}s", len(each), each.encode()) for each in broker.mechanisms)
            _send(stream, number, struct.pack(">hi", code, len(broker.mechanisms)) + names)
            if code == 33:
                return
            exchange = _MECHANISMS[mechanism](broker) if code == 0 else None
            if exchange:
                next(exchange)
        elif key == 36:
            if broker.closes_in_login or exchange is None:
                return
            try:
                token = exchange.send(_token(body))
            except RefusedError as error:
                _send(stream, number, _authenticated(58, broker.says or str(error), b"", 0))
                return
            _send(stream, number, _authenticated(0, "", token[0], broker.lifetime_ms))
            if token[1]:
                broker.logins.append(token[1])
                session = broker.session
        elif key == 3 and 9 <= version <= 12 and session == broker.session:
            _send(stream, number, b"\0" + _metadata(broker, version))
        else:
            return


def _token(body: bytes) -> bytes:
    """Return the token of SaslAuthenticate 2: behind the header's tags and one or two bytes of length, before tags."""
    return body[3 if body[1] & 0x80 else 2 : -1]


def _plain(broker: SecuredBroker) -> Iterator:
    token = yield
    _, name, password = token.decode().split("\0")
    if (name, password) != (USER, PASSWORD):
        raise RefusedError("Authentication failed: Invalid username or password")
    yield b"", name


def _scram(hash_name: str) -> Callable[[SecuredBroker], Iterator]:
    def exchange(broker: SecuredBroker) -> Iterator:
        first = (yield).decode().removeprefix("n,,")
        name, nonce = (part[2:] for part in first.split(","))
        challenge = f"r={nonce}{SERVER_NONCE},s={base64.b64encode(SALT).decode()},i={ITERATIONS}"
        final = (yield challenge.encode(), "").decode()
        salted = hashlib.pbkdf2_hmac(hash_name, PASSWORD.encode(), SALT, ITERATIONS)
        unproven, _, proof = final.rpartition(",p=")
        said = f"{first},{challenge},{unproven}".encode()
        client_key = hmac.digest(salted, b"Client Key", hash_name)
        signature = hmac.digest(hashlib.new(hash_name, client_key).digest(), said, hash_name)
        wanted = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        if name != USER or base64.b64decode(proof) != wanted:
            raise RefusedError("Authentication failed during authentication due to invalid credentials")
        key = b"a key that no broker has" if broker.is_impostor else hmac.digest(salted, b"Server Key", hash_name)
        yield b"v=" + base64.b64encode(hmac.digest(key, said, hash_name)), name

    return exchange


def _oauthbearer(broker: SecuredBroker) -> Iterator:
    token = yield
    if f"\x01auth=Bearer {TOKEN}\x01".encode() in token:
        yield b"", "the bearer"
        return
    last_word = yield b'{"status":"invalid_token"}', ""
    assert last_word == b"\x01", "RFC 7628, 3.2.3"
    broker.logins.append("refused as the standard says")
    raise RefusedError('{"status":"invalid_token"}')


_MECHANISMS: dict[str, Callable[[SecuredBroker], Iterator]] = {
    "PLAIN": _plain,
    "SCRAM-SHA-256": _scram("sha256"),
    "SCRAM-SHA-512": _scram("sha512"),
    "OAUTHBEARER": _oauthbearer,
}


def _metadata(broker: SecuredBroker, version: int) -> bytes:
    messages = importlib.import_module(f"kio.schema.metadata.v{version}.response")
    host, port = broker.address
    row = messages.MetadataResponseBroker(node_id=BrokerId(1), host=host, port=i32(port), rack=None)
    return encoded(
        messages.MetadataResponse(
            throttle_time=i32Timedelta.parse(timedelta(0)),
            brokers=(row,),
            cluster_id=None,
            controller_id=BrokerId(1),
            topics=(),
        )
    )


def _authenticated(code: int, message: str, token: bytes, lifetime_ms: int) -> bytes:
    text = message.encode()
    assert len(text) < 120, "one byte of length"
    assert len(token) < 16_000, "two bytes of length"
    length = len(token) + 1
    size = bytes([length]) if length < 128 else bytes([length & 0x7F | 0x80, length >> 7])
    return (
        b"\0" + struct.pack(">hB", code, len(text) + 1) + text + size + token + struct.pack(">q", lifetime_ms) + b"\0"
    )


def _send(stream: socket.socket, number: int, body: bytes) -> None:
    stream.sendall(struct.pack(">ii", 4 + len(body), number) + body)


def _read(stream: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        more = stream.recv(size - len(found))
        if not more:
            raise EOFError
        found += more
    return found
