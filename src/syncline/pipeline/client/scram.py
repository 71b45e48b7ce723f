"""SCRAM as a client, from text to text: RFC 5802 with SHA-256 (RFC 7677) or SHA-512, as Kafka speaks it.

The password never leaves this machine: both sides prove that they know what is derived from it, and the derivation is
slow on purpose. A server that offers few iterations would make the proof cheap to guess from, one that asks for too
many keeps this client busy; both are refused. The server's signature is verified: without that, anyone could
impersonate the broker.

As in Kafka, names and passwords are used as they are, without SASLprep; there is no channel binding.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Generator
from functools import lru_cache
from typing import Final, Literal, TypeAlias

from syncline.pipeline.client.secret import Secret

Hash: TypeAlias = Literal["sha256", "sha512"]

# Kafka's own lower bound (RFC 7677 has the same), and about half a second of CPU time.
ITERATIONS_MIN: Final = 4_096
ITERATIONS_MAX: Final = 1_000_000
_GS2_HEADER: Final = "n,,"
_BOUND: Final = base64.b64encode(_GS2_HEADER.encode()).decode()
# The salted passwords of a few users: each task logs in at each leader, and deriving them takes milliseconds.
_KEPT: Final = 8


class ScramError(Exception):
    """The server's answer breaks a rule of SCRAM, or is that of a server that does not know the password."""


def exchange(name: str, password: Secret, nonce: str, hash_name: Hash) -> Generator[bytes, bytes, None]:
    """Yield the client's two messages, and receive the server's; raise `ScramError` for a wrong one.

    `nonce` is fresh random text without commas.
    """
    assert nonce.isascii(), "a nonce is printable ASCII"
    assert "," not in nonce, "a nonce has no comma"
    first = f"n={_escaped(name)},r={nonce}"
    server_first = _text((yield (_GS2_HEADER + first).encode()))
    server_nonce, salt, iterations = _challenge(server_first, nonce)
    salted = _salted(hash_name, password, salt, iterations)
    final = f"c={_BOUND},r={server_nonce}"
    said = f"{first},{server_first},{final}".encode()
    proof = base64.b64encode(_proof(hash_name, salted, said)).decode()
    server_final = _text((yield f"{final},p={proof}".encode()))
    _verify(server_final, _hmac(hash_name, _hmac(hash_name, salted, b"Server Key"), said))


def _escaped(name: str) -> str:
    return name.replace("=", "=3D").replace(",", "=2C")


def _text(message: bytes) -> str:
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise ScramError("the server's message is not UTF-8") from None


def _challenge(message: str, nonce: str) -> tuple[str, bytes, int]:
    """Return nonce, salt and iterations of the server's first message."""
    fields = message.split(",")
    if fields[0].startswith("m="):
        raise ScramError("the server asks for an extension that this client does not know")
    if fields[0].startswith("e="):
        raise ScramError(f"the server refuses: {fields[0][2:]}")
    # What follows the three are extensions, which a client may ignore.
    if [field[:2] for field in fields[:3]] != ["r=", "s=", "i="]:
        raise ScramError("the server's first message does not have nonce, salt and iterations")
    server_nonce, salt_text, count = (field[2:] for field in fields[:3])
    if not server_nonce.startswith(nonce) or len(server_nonce) == len(nonce):
        raise ScramError("the server's nonce does not continue this client's")
    if not (count.isascii() and count.isdigit() and len(count) <= len(str(ITERATIONS_MAX))):
        raise ScramError("the server's iteration count is not a number within bounds")
    if not ITERATIONS_MIN <= int(count) <= ITERATIONS_MAX:
        raise ScramError(f"the server asks for {count} iterations; {ITERATIONS_MIN} to {ITERATIONS_MAX} are accepted")
    salt = _base64(salt_text, "salt")
    if not salt:
        raise ScramError("the server's salt is empty")
    return server_nonce, salt, int(count)


def _base64(text: str, what: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ScramError(f"the server's {what} is not base64") from None


@lru_cache(_KEPT)
def _salted(hash_name: Hash, password: Secret, salt: bytes, iterations: int) -> bytes:
    return hashlib.pbkdf2_hmac(hash_name, password.text.encode(), salt, iterations)


def _hmac(hash_name: Hash, key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, hash_name)


def _proof(hash_name: Hash, salted: bytes, said: bytes) -> bytes:
    client_key = _hmac(hash_name, salted, b"Client Key")
    signature = _hmac(hash_name, hashlib.new(hash_name, client_key).digest(), said)
    return bytes(one ^ other for one, other in zip(client_key, signature, strict=True))


def _verify(message: str, signature: bytes) -> None:
    head, value = message[:2], message[2:].partition(",")[0]
    if head == "e=":
        raise ScramError(f"the server refuses: {value}")
    if head != "v=" or not hmac.compare_digest(_base64(value, "signature"), signature):
        raise ScramError("the server's signature is wrong: it does not know the password, so it is not the broker")
