"""SASL exchanges as a client, without any socket: each yields what to send and receives what was answered.

The exchange is over when the generator returns; `SaslError` says that the other side broke a rule or refuses in the
mechanism's own words. Kafka's SaslAuthenticate reports, beside the exchange, whether the broker finally accepts.

Source: RFC 4616 (PLAIN), RFC 5802 (SCRAM), RFC 7628 (OAUTHBEARER), KIP-43, KIP-84, KIP-255, KIP-342.
"""

import json
import re
from collections.abc import Generator, Sequence
from typing import Final, TypeAlias, assert_never

from syncline.pipeline.client import scram
from syncline.pipeline.client.secret import Secret
from syncline.pipeline.client.security import Login

Exchange: TypeAlias = Generator[bytes, bytes, None]

# RFC 7628, 3.1: names are letters; values are printable, blanks and line ends.
_EXTENSION_NAME: Final = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE: Final = re.compile(r"[\x21-\x7e \t\r\n]+")
# RFC 6750, 2.1.
_TOKEN: Final = re.compile(r"[-A-Za-z0-9._~+/]+=*")
_STATUS_CHARACTERS_MAX: Final = 200


class SaslError(Exception):
    """The exchange fails; `last_word` is what the mechanism wants said before the connection is closed."""

    def __init__(self, message: str, last_word: bytes = b"") -> None:
        super().__init__(message)
        self.last_word = last_word


def exchange(login: Login, *, token: Secret | None, nonce: str) -> Exchange:
    """Return the exchange of a login; `token` is that of OAUTHBEARER, `nonce` fresh random text for SCRAM."""
    match login.mechanism:
        case "OAUTHBEARER":
            assert token is not None, "a login by token has one"
            return _oauthbearer(token, login.extensions)
        case "PLAIN":
            assert login.password is not None, "a login by name has a password"
            return _plain(login.username, login.password)
        case "SCRAM-SHA-256" | "SCRAM-SHA-512":
            assert login.password is not None, "a login by name has a password"
            return _scram(login.username, login.password, nonce, "sha512" if "512" in login.mechanism else "sha256")
        case _:
            assert_never(login.mechanism)


def extension_problem(name: str, value: str) -> str | None:
    """Return why this cannot be an extension of OAUTHBEARER, None if it can."""
    if name == "auth" or not _EXTENSION_NAME.fullmatch(name):
        return "its name must be letters, but not auth"
    if not _EXTENSION_VALUE.fullmatch(value):
        return "its value must be printable characters"
    return None


def is_bearer_token(text: str) -> bool:
    """Return whether this can be sent as a token at all."""
    return _TOKEN.fullmatch(text) is not None


def _plain(name: str, password: Secret) -> Exchange:
    yield b"\0".join((b"", name.encode(), password.text.encode()))


def _scram(name: str, password: Secret, nonce: str, hash_name: scram.Hash) -> Exchange:
    try:
        yield from scram.exchange(name, password, nonce, hash_name)
    except scram.ScramError as error:
        raise SaslError(str(error)) from None


def _oauthbearer(token: Secret, extensions: Sequence[tuple[str, str]]) -> Exchange:
    pairs = "".join(f"{name}={value}\x01" for name, value in extensions)
    answer = yield f"n,,\x01auth=Bearer {token.text}\x01{pairs}\x01".encode()
    if answer:
        raise SaslError(f"the token is refused: {_status(answer)}", last_word=b"\x01")


def _status(answer: bytes) -> str:
    """Return what the server's error answer, JSON by RFC 7628, 3.2.2, says of the reason."""
    try:
        content = json.loads(answer)
    except (ValueError, RecursionError):
        content = None
    status = content.get("status") if isinstance(content, dict) else None
    if not isinstance(status, str):
        return "the server's reason cannot be read"
    scope = content.get("scope") if isinstance(content, dict) else None
    wanted = f", the scope {scope} is needed" if isinstance(scope, str) and scope else ""
    return f"{status}{wanted}"[:_STATUS_CHARACTERS_MAX]
