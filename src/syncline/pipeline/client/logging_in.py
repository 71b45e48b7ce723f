"""Login on a connection: the SASL exchange carried by Kafka's requests, and what its failures mean.

A refused login is final: the same name and password are refused again, and brokers delay each refusal on purpose.
"""

import contextlib
import secrets
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from syncline.model.errors import ErrorCode
from syncline.pipeline.client import sasl
from syncline.pipeline.client.messages import Api
from syncline.pipeline.client.refusals import name_of
from syncline.pipeline.client.sasl_messages import (
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    Authenticated,
    authenticate_answer,
    authenticate_request,
    handshake_answer,
    handshake_request,
)
from syncline.pipeline.client.secret import Secret, without
from syncline.pipeline.client.security import Login
from syncline.pipeline.client.tokens import token_of
from syncline.pipeline.errors import SecurityError

Call: TypeAlias = Callable[[Api, bytes], memoryview]

_NONCE_BYTES: Final = 24
_TOKENS_MAX: Final = 8
_MESSAGE_CHARACTERS_MAX: Final = 300


def log_in(call: Call, login: Login, where: str) -> int:
    """Do the whole exchange through `call`, and return the session's lifetime in ms, 0 for one without end.

    Raises `SecurityError` for a refusal, `OptionError` where there is no token, and what `call` raises.
    """
    token = None if login.token is None else token_of(login.token)
    offered = handshake_answer(call(SASL_HANDSHAKE, handshake_request(login.mechanism)))
    if offered.code != ErrorCode.NONE:
        raise SecurityError(_no_handshake(offered.code, offered.mechanisms, login, where))
    known = [secret for secret in (login.password, token) if secret is not None]
    tokens = sasl.exchange(login, token=token, nonce=secrets.token_urlsafe(_NONCE_BYTES))
    try:
        return _exchange(call, tokens)
    except _RefusedError as error:
        reason = _tidy(error.answer.message, known) or name_of(error.answer.code)
        raise SecurityError(f"{where} refuses {login.who} with {login.mechanism}: {reason}; {_advice(login)}") from None
    except sasl.SaslError as error:
        if error.last_word:
            with contextlib.suppress(OSError):
                call(SASL_AUTHENTICATE, authenticate_request(error.last_word))
        reason = _tidy(str(error), known)
        raise SecurityError(f"login at {where} with {login.mechanism} failed: {reason}; {_advice(login)}") from None


class _RefusedError(Exception):
    """The broker answered with an error code."""

    def __init__(self, answer: Authenticated) -> None:
        super().__init__(answer.code)
        self.answer = answer


def _exchange(call: Call, tokens: sasl.Exchange) -> int:
    token = next(tokens)
    for _ in range(_TOKENS_MAX):
        answer = authenticate_answer(call(SASL_AUTHENTICATE, authenticate_request(token)))
        if answer.code != ErrorCode.NONE:
            raise _RefusedError(answer)
        try:
            token = tokens.send(answer.token)
        except StopIteration:
            return answer.lifetime_ms
    raise AssertionError("no mechanism needs that many messages")


def _tidy(message: str, known: Iterable[Secret]) -> str:
    """Return a broker's message in one line of bounded length, without secrets."""
    hidden = without(message, known)
    printable = "".join(each if each.isprintable() else " " for each in hidden)
    return " ".join(printable.split())[:_MESSAGE_CHARACTERS_MAX]


def _no_handshake(code: int, mechanisms: tuple[str, ...], login: Login, where: str) -> str:
    if code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        offered = ", ".join(sorted(mechanisms)) or "none"
        return f"{where} does not support {login.mechanism}: set the option kafka.sasl.mechanism; it offers {offered}"
    if code == ErrorCode.ILLEGAL_SASL_STATE:
        return (
            f"{where} is a listener without authentication: remove SASL_ from the option kafka.security.protocol, "
            "or name a listener with authentication in kafka.bootstrap.servers"
        )
    return f"{where} refuses to begin a login with {login.mechanism}: {name_of(code)}"


def _advice(login: Login) -> str:
    option = login.token.option if login.token else login.option
    return f"correct the option {option}"
