"""SCRAM says what RFC 5802 and 7677 say, and believes no server that does not prove itself."""

import base64
import hashlib
import hmac

import pytest

from syncline.pipeline.client import scram
from syncline.pipeline.client.secret import Secret

NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = f"r={NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"


def _begun(name: str = "user", password: str = "pencil", hash_name: scram.Hash = "sha256"):
    exchange = scram.exchange(name, Secret(password), NONCE, hash_name)
    return exchange, next(exchange)


def test_scram_sha_256_is_that_of_the_rfc() -> None:
    """The example of RFC 7677, section 3, message by message."""
    exchange, first = _begun()
    final = exchange.send(SERVER_FIRST.encode())

    assert first == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert final == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    with pytest.raises(StopIteration):
        exchange.send(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


def test_scram_sha_512_satisfies_a_server_that_keeps_only_keys() -> None:
    """The server's side of RFC 5802, section 3, from its own stored key."""
    name, password, salt, iterations = "a,b=c", "pässword", b"sixteen bytes ..", 5_000
    exchange, first = _begun(name, password, "sha512")
    server_first = f"r={NONCE}+server,s={base64.b64encode(salt).decode()},i={iterations},x=extension"
    final = exchange.send(server_first.encode()).decode()

    assert first.decode() == f"n,,n=a=2Cb=3Dc,r={NONCE}"
    salted = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, iterations)
    stored_key = hashlib.sha512(hmac.digest(salted, b"Client Key", "sha512")).digest()
    without_proof, _, proof = final.rpartition(",p=")
    said = f"{first.decode()[3:]},{server_first},{without_proof}".encode()
    signature = hmac.digest(stored_key, said, "sha512")
    client_key = bytes(a ^ b for a, b in zip(base64.b64decode(proof), signature, strict=True))
    assert hashlib.sha512(client_key).digest() == stored_key
    verifier = hmac.digest(hmac.digest(salted, b"Server Key", "sha512"), said, "sha512")
    with pytest.raises(StopIteration):
        exchange.send(b"v=" + base64.b64encode(verifier))


@pytest.mark.parametrize(
    ("message", "told"),
    [
        pytest.param(b"", "does not have nonce", id="empty"),
        pytest.param(b"\xff\xfe", "not UTF-8", id="no text"),
        pytest.param(b"m=x," + SERVER_FIRST.encode(), "extension", id="mandatory extension"),
        pytest.param(b"e=unknown-user", "refuses: unknown-user", id="error"),
        pytest.param(SERVER_FIRST.replace(NONCE, "another").encode(), "nonce", id="other nonce"),
        pytest.param(f"r={NONCE},s=c2FsdA==,i=4096".encode(), "nonce", id="nonce without the server's part"),
        pytest.param(SERVER_FIRST.replace("4096", "4095").encode(), "4096 to", id="too few iterations"),
        pytest.param(SERVER_FIRST.replace("4096", "1000001").encode(), "4096 to", id="too many iterations"),
        pytest.param(
            SERVER_FIRST.replace("4096", "9" * 5_000).encode(), "not a number within", id="endless iterations"
        ),
        pytest.param(SERVER_FIRST.replace("4096", "-4096").encode(), "not a number within", id="negative"),
        pytest.param(SERVER_FIRST.replace("4096", "４０９６").encode(), "not a number within", id="other digits"),
        pytest.param(SERVER_FIRST.replace("W22Z", "!!!!").encode(), "salt is not base64", id="salt"),
        pytest.param(f"r={NONCE}x,s=,i=4096".encode(), "salt is empty", id="no salt"),
        pytest.param(SERVER_FIRST.rpartition(",")[0].encode(), "does not have nonce", id="cut"),
    ],
)
def test_scram_refuses_a_first_message_that(message: bytes, told: str) -> None:
    """Nothing is derived from the password for such a server, and nothing is sent."""
    exchange, _ = _begun()

    with pytest.raises(scram.ScramError, match=told):
        exchange.send(message)


@pytest.mark.parametrize(
    ("message", "told"),
    [
        pytest.param(b"v=" + base64.b64encode(bytes(32)), "signature is wrong", id="another signature"),
        pytest.param(b"v=", "signature is wrong", id="none"),
        pytest.param(b"v=?", "not base64", id="no base64"),
        pytest.param(b"", "signature is wrong", id="empty"),
        pytest.param(b"e=invalid-proof", "refuses: invalid-proof", id="error"),
    ],
)
def test_scram_refuses_a_server_that_does_not_prove_itself(message: bytes, told: str) -> None:
    """Only a server that knows the password's keys can sign; any other is an impostor."""
    exchange, _ = _begun()
    exchange.send(SERVER_FIRST.encode())

    with pytest.raises(scram.ScramError, match=told):
        exchange.send(message)
