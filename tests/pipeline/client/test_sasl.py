"""Exchanges send the bytes that their standards ask for, and a refusal says why without the token."""

import pytest

from syncline.pipeline.client import sasl
from syncline.pipeline.client.secret import Secret
from syncline.pipeline.client.security import Login, TokenSource

PLAIN = Login("PLAIN", "kafka.sasl.jaas.config", username="tim", password=Secret("tanstaaftanstaaf"))
BEARER = Login("OAUTHBEARER", "oauthTokenFile", token=TokenSource("oauthTokenFile", file="t"))


def test_plain_sends_name_and_password_at_once() -> None:
    """The first example of RFC 4616, which has no authorization identity."""
    exchange = sasl.exchange(PLAIN, token=None, nonce="")

    assert next(exchange) == b"\0tim\0tanstaaftanstaaf"
    with pytest.raises(StopIteration):
        exchange.send(b"")


def test_oauthbearer_sends_the_token_and_its_extensions() -> None:
    """RFC 7628, section 3.1, with the extensions of KIP-342."""
    login = Login("OAUTHBEARER", "x", token=BEARER.token, extensions=(("logicalCluster", "lkc-1"), ("pool", "p")))
    exchange = sasl.exchange(login, token=Secret("vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg=="), nonce="")

    assert next(exchange) == (
        b"n,,\x01auth=Bearer vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg==\x01logicalCluster=lkc-1\x01pool=p\x01\x01"
    )
    with pytest.raises(StopIteration):
        exchange.send(b"")


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        pytest.param(b'{"status":"invalid_token","scope":"read"}', "invalid_token, the scope read", id="of the RFC"),
        pytest.param(b'{"status":"invalid_token"}', "refused: invalid_token$", id="no scope"),
        pytest.param(b'{"status":7}', "cannot be read", id="no text"),
        pytest.param(b"[1]", "cannot be read", id="no object"),
        pytest.param(b"[" * 100_000, "cannot be read", id="deep"),
        pytest.param(b"\xff", "cannot be read", id="no JSON"),
    ],
)
def test_oauthbearer_ends_a_refusal_as_the_standard_says(answer: bytes, told: str) -> None:
    """The error answer is JSON, and the client says one byte more, RFC 7628, section 3.2.3."""
    exchange = sasl.exchange(BEARER, token=Secret("token"), nonce="")
    next(exchange)

    with pytest.raises(sasl.SaslError, match=told) as refused:
        exchange.send(answer)
    assert refused.value.last_word == b"\x01"


@pytest.mark.parametrize(
    ("name", "value", "is_fine"),
    [
        pytest.param("logicalCluster", "lkc-1", True, id="usual"),
        pytest.param("auth", "x", False, id="the token's own name"),
        pytest.param("a1", "x", False, id="digit"),
        pytest.param("", "x", False, id="no name"),
        pytest.param("a", "x\x01auth=Bearer other", False, id="another field"),
        pytest.param("a", "", False, id="empty"),
    ],
)
def test_extensions_cannot_change_the_message(name: str, value: str, is_fine: bool) -> None:
    """What could end a field early is refused."""
    assert (sasl.extension_problem(name, value) is None) == is_fine


def test_tokens_are_those_of_the_standard() -> None:
    """RFC 6750: letters, digits, six signs, and equal signs at the end."""
    assert sasl.is_bearer_token("eyJhbGciOiJub25lIn0.eyJzdWIi-_~+/.==")
    assert not any(map(sasl.is_bearer_token, ("", "a b", "a\x01b", "a=b", "ä", "a\n")))


def test_logins_show_no_secret() -> None:
    """They are parts of settings that may be printed."""
    assert "tanstaaf" not in repr(PLAIN)
    assert "user tim" in PLAIN.who
