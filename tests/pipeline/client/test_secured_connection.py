"""Encrypted and authenticated connections, over real sockets; each failure is one sentence, soon, without a secret."""

import logging
import pickle
import socket
import ssl
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from syncline.model.ids import TopicPartition
from syncline.pipeline.client import first_contact
from syncline.pipeline.client.cluster import Cluster
from syncline.pipeline.client.connection import ClosedEarlyError, Connection
from syncline.pipeline.client.messages import Api
from syncline.pipeline.client.secret import Secret
from syncline.pipeline.client.security import KeyStore, Login, Security, Tls, TokenSource, TrustStore
from syncline.pipeline.client.settings import Address, ClientSettings
from syncline.pipeline.errors import BrokerError, OptionError, PipelineError, SecurityError
from tests.pipeline.client.certificates import Authority
from tests.pipeline.client.secured_broker import (
    PASSWORD,
    TOKEN,
    USER,
    SecuredBroker,
    answering,
    running,
    server_context,
)

METADATA, ALL_TOPICS = Api(3, 9, is_flexible=True), bytes(5)
LOCAL = ("localhost", "127.0.0.1")
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
AT_ONCE_S = 3.0
ALERT, HTTP = b"\x15\x03\x03\x00\x02\x02\x50", b"HTTP/1.1 400 Bad Request\r\n\r\n"
SPEAKS_TLS = "speaks TLS: set the option kafka.security.protocol to SSL"


class World:
    """An authority, and what clients and brokers make of it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.authority = Authority()
        self.trust = TrustStore("kafka.ssl.truststore.location", file=self.authority.file(directory))
        self.tls = Tls(trust=self.trust)

    def server(self, hosts=LOCAL, *, authority: Authority | None = None, clients: str = "", **times) -> ssl.SSLContext:
        """Return a broker's context, with a certificate for these hosts."""
        identity = (authority or self.authority).issue("broker", hosts, **times)
        return server_context(identity, self.directory, clients=clients)

    def client(self, authority: Authority | None = None) -> Tls:
        """Return settings with a certificate of the client's."""
        file = (authority or self.authority).issue("client").file(self.directory)
        return Tls(trust=self.trust, keys=KeyStore("kafka.ssl.keystore.location", file=file))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Certificates for all tests here."""
    return World(tmp_path_factory.mktemp("certificates"))


def _settings(address: Address, security: Security, *, patience_ms: int = 120_000) -> ClientSettings:
    return ClientSettings((address,), security=security, patience_ms=patience_ms, request_timeout_ms=5_000)


def _login(mechanism="PLAIN", password: str = PASSWORD, user: str = USER) -> Login:
    return Login(mechanism, "kafka.sasl.jaas.config", username=user, password=Secret(password))


def _bearer(directory: Path, token: str = TOKEN) -> Login:
    file = directory / "token"
    file.write_text(token + "\n")
    return Login("OAUTHBEARER", "oauthTokenFile", token=TokenSource("oauthTokenFile", file=str(file)))


def _ask(broker: SecuredBroker, security: Security) -> tuple[TopicPartition, ...]:
    with Cluster(_settings(broker.address, security)) as cluster:
        return cluster.partitions(())


@contextmanager
def _fails(told: str, broker: SecuredBroker, within_s: float = AT_ONCE_S) -> Iterator[None]:
    """Expect one sentence with the broker's address, in time, without a secret."""
    began = time.monotonic()
    with pytest.raises(PipelineError, match=told) as refused:
        yield
    assert time.monotonic() - began < within_s
    message = str(refused.value)
    assert f"127.0.0.1:{broker.address[1]}" in message
    assert "\n" not in message
    assert PASSWORD not in message
    assert TOKEN not in message


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_client_speaks_tls(world: World, version) -> None:
    """Guards: SSL. Answers come through the encrypted stream."""
    with running(SecuredBroker(tls=world.server())) as broker:
        assert _ask(broker, Security(tls=Tls(trust=world.trust, versions=(version,)))) == ()


def test_client_shows_its_certificate(world: World) -> None:
    """Guards: mutual TLS."""
    with running(SecuredBroker(tls=world.server(clients=world.authority.pem()))) as broker:
        assert _ask(broker, Security(tls=world.client())) == ()


@pytest.mark.parametrize("mechanism", ["PLAIN", *SCRAM, "OAUTHBEARER"])
@pytest.mark.parametrize("encrypts", [False, True])
def test_client_logs_in(world: World, tmp_path: Path, mechanism, encrypts: bool) -> None:
    """Guards: SASL_PLAINTEXT and SASL_SSL with each mechanism."""
    login = _bearer(tmp_path) if mechanism == "OAUTHBEARER" else _login(mechanism)
    served = SecuredBroker(tls=world.server() if encrypts else None, mechanisms=(mechanism,))
    with running(served) as broker:
        assert _ask(broker, Security(tls=world.tls if encrypts else None, login=login)) == ()
        assert len(broker.logins) == 1


def test_token_comes_from_a_function(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards: "a token from a callable". Each login asks again."""
    calls = []
    module = types.ModuleType("my_tokens")
    module.current = lambda: calls.append(1) or TOKEN
    monkeypatch.setitem(sys.modules, "my_tokens", module)
    source = TokenSource("oauthTokenFunction", function="my_tokens:current")
    security = Security(login=Login("OAUTHBEARER", "oauthTokenFunction", token=source))
    with running(SecuredBroker(mechanisms=("OAUTHBEARER",))) as broker:
        assert _ask(broker, security) == _ask(broker, security) == ()

    assert len(calls) == 2


def _raises() -> str:
    raise ValueError(TOKEN)


@pytest.mark.parametrize(
    ("function", "told"),
    [
        ("no_such_module:current", "cannot be imported"),
        ("my_tokens:missing", "cannot be imported"),
        ("my_tokens:number", "is not a function"),
        ("my_tokens:nothing", "returned NoneType"),
        ("my_tokens:raising", "raised ValueError"),
        ("my_tokens:quoted", "not a bearer token"),
    ],
)
def test_token_function_that_gives_no_token_is_named(monkeypatch, function: str, told: str) -> None:
    """What it raised may hold a secret, so only its kind is shown; no broker is asked."""
    module = types.ModuleType("my_tokens")
    module.number, module.nothing, module.raising, module.quoted = 7, lambda: None, _raises, lambda: f'"{TOKEN}"'
    monkeypatch.setitem(sys.modules, "my_tokens", module)
    source = TokenSource("oauthTokenFunction", function=function)
    security = Security(login=Login("OAUTHBEARER", "oauthTokenFunction", token=source))
    with (
        running(SecuredBroker(mechanisms=("OAUTHBEARER",))) as broker,
        pytest.raises(OptionError, match=f"oauthTokenFunction.*{told}") as refused,
    ):
        _ask(broker, security)

    assert TOKEN not in str(refused.value)
    assert refused.value.__context__ is None or refused.value.__suppress_context__


@pytest.mark.parametrize("mechanism", ["PLAIN", *SCRAM])
@pytest.mark.parametrize("wrong", [{"password": "guess"}, {"user": "mallory"}])
def test_wrong_name_or_password_is_told_at_once(mechanism, wrong: dict[str, str]) -> None:
    """Guards: "wrong password": one attempt, not two minutes of them."""
    security = Security(login=_login(mechanism, **wrong))
    with running(SecuredBroker(mechanisms=(mechanism,))) as broker:
        with _fails(rf"refuses user \w+ with {mechanism}: Auth.*; correct the option kafka.sasl.jaas.config", broker):
            _ask(broker, security)
        assert broker.connections == 1


def test_wrong_token_is_told_at_once(tmp_path: Path) -> None:
    """Guards: "RFC 7628 error answer handled": the client says its last byte, too."""
    with running(SecuredBroker(mechanisms=("OAUTHBEARER",))) as broker:
        with _fails("the token is refused: invalid_token; correct the option oauthTokenFile", broker):
            _ask(broker, Security(login=_bearer(tmp_path, "another")))
        assert broker.logins == ["refused as the standard says"]


def test_broker_that_repeats_the_password_is_not_quoted() -> None:
    """Its message is cut to one line, and what it must not say is hidden."""
    says = "the password\n\x1b[31m guess-guess  is wrong"
    with (
        running(SecuredBroker(mechanisms=("PLAIN",), says=says)) as broker,
        _fails(r"PLAIN: the password \[31m \[hidden\] is wrong; correct", broker),
    ):
        _ask(broker, Security(login=_login(password="guess-guess")))


@pytest.mark.parametrize("mechanism", SCRAM)
def test_broker_that_does_not_know_the_password_is_not_believed(mechanism) -> None:
    """Guards: "server signature verified"."""
    with (
        running(SecuredBroker(mechanisms=(mechanism,), is_impostor=True)) as broker,
        _fails("the server's signature is wrong", broker),
    ):
        _ask(broker, Security(login=_login(mechanism)))


def test_unknown_mechanism_is_told_with_those_that_are_known() -> None:
    """Guards: "unknown mechanism"."""
    with (
        running(SecuredBroker(mechanisms=SCRAM)) as broker,
        _fails("does not support PLAIN: set the option kafka.sasl.mech.*offers SCRAM-SHA-256, SCRAM-SHA-512", broker),
    ):
        _ask(broker, Security(login=_login()))


def test_listener_without_authentication_is_told() -> None:
    """It answers that a login is out of place."""
    with (
        running(SecuredBroker()) as broker,
        _fails("without authentication: remove SASL_ from the option kafka.security.protocol", broker),
    ):
        _ask(broker, Security(login=_login()))


@pytest.mark.parametrize(
    ("server", "told"),
    [
        pytest.param(
            lambda world: world.server(authority=Authority("Another")),
            "authority that this client does not trust: name .*kafka.ssl.truststore.location",
            id="wrong CA",
        ),
        pytest.param(
            lambda world: world.server(begins=timedelta(days=-9), ends=timedelta(days=-1)), "has expired", id="expired"
        ),
        pytest.param(
            lambda world: world.server(begins=timedelta(hours=1)), "is not valid yet: check this", id="not yet valid"
        ),
        pytest.param(
            lambda world: world.server(("kafka.example", "10.0.0.1")),
            "for another host: .*kafka.ssl.endpoint.identification.algorithm",
            id="another host",
        ),
    ],
)
def test_certificate_that_is_wrong_is_told_at_once(world: World, server: Callable, told: str) -> None:
    """Guards: "wrong CA, expired certificate, host name mismatch"."""
    with running(SecuredBroker(tls=server(world))) as broker:
        with _fails(told, broker):
            _ask(broker, Security(tls=world.tls))
        assert broker.connections == 1


def test_host_is_not_checked_if_the_option_is_empty(world: World) -> None:
    """The authority still is."""
    with running(SecuredBroker(tls=world.server(("kafka.example",)))) as broker:
        assert _ask(broker, Security(tls=Tls(trust=world.trust, checks_host=False))) == ()
    with (
        running(SecuredBroker(tls=world.server(authority=Authority("Another")))) as broker,
        _fails("does not trust", broker),
    ):
        _ask(broker, Security(tls=Tls(trust=world.trust, checks_host=False)))


def test_a_brokers_own_certificate_can_be_trusted(world: World, tmp_path: Path) -> None:
    """As in Java, what is in the trust store is trusted."""
    identity = Authority("Unknown").issue("broker", LOCAL)
    with running(SecuredBroker(tls=server_context(identity, tmp_path))) as broker:
        trust = TrustStore("kafka.ssl.truststore.certificates", pem=identity.chain_pem())
        assert _ask(broker, Security(tls=Tls(trust=trust))) == ()


def test_machine_authorities_are_trusted_without_a_store(world: World) -> None:
    """A certificate of the test's own authority is none of theirs."""
    with (
        running(SecuredBroker(tls=world.server())) as broker,
        _fails("authority that this client does not trust", broker),
    ):
        _ask(broker, Security(tls=Tls()))


@pytest.mark.parametrize("client", ["none", "of another authority"])
def test_client_certificate_that_is_missing_or_wrong_is_told(world: World, client: str) -> None:
    """In TLS 1.3 the broker says so after the handshake, when the first answer is awaited."""
    with running(SecuredBroker(tls=world.server(clients=world.authority.pem()))) as broker:
        if client == "none":
            with _fails("client.*kafka.ssl.keystore.location", broker, 8):
                _ask(broker, Security(tls=world.tls))
        else:
            with _fails("refuses this client's cert.*|kafka.security.protocol", broker, 8):
                _ask(broker, Security(tls=world.client(Authority("Another"))))


def test_plain_client_at_a_listener_with_tls_is_told_soon(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards: "plain client on a TLS port", for one that hangs up; Java's send an alert first."""
    monkeypatch.setattr(first_contact, "PATIENCE_S", 0.5)
    with (
        running(SecuredBroker(tls=world.server())) as broker,
        _fails("a listener with TLS or a login does that; .*set the option kafka.security.protocol", broker),
    ):
        _ask(broker, Security())


def test_alert_of_tls_is_recognised_by_a_plain_client() -> None:
    """What Apache Kafka answers: an alert of two bytes, which is no size of an answer."""
    with answering(ALERT) as broker, _fails(SPEAKS_TLS, broker):
        _ask(broker, Security())


def test_a_strangers_connection_holds_up_no_server() -> None:
    """Guards: a run that never ended. A client of another test may still try the port that this one gets."""
    before = threading.active_count()
    with answering(ALERT) as broker, socket.create_connection(broker.address):
        with _fails(SPEAKS_TLS, broker):
            _ask(broker, Security())
        began_s = time.monotonic()

    assert time.monotonic() - began_s < AT_ONCE_S
    assert threading.active_count() == before


@pytest.mark.parametrize("is_silent", [False, True])
def test_tls_client_at_a_listener_without_is_told_soon(world: World, monkeypatch, is_silent: bool) -> None:
    """Guards: "TLS client on a plain port", whether it answers something or hangs up, as Kafka does."""
    monkeypatch.setattr(first_contact, "PATIENCE_S", 0.5)
    with (
        running(SecuredBroker()) if is_silent else answering(HTTP) as broker,
        _fails("does not speak TLS: set the option kafka.security.protocol to PLAINTEXT", broker),
    ):
        _ask(broker, Security(tls=world.tls))


def test_client_without_login_at_a_listener_with_one_is_told_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a listener hangs up; a client that was never answered does not wait for two minutes."""
    monkeypatch.setattr(first_contact, "PATIENCE_S", 0.5)
    with (
        running(SecuredBroker(mechanisms=("PLAIN",))) as broker,
        _fails("closed the connection; .*set the option kafka.security.protocol", broker),
    ):
        _ask(broker, Security())


def test_broker_that_hangs_up_within_the_login_is_told_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards: "authentication failures are never retried for the whole patience"."""
    monkeypatch.setattr(first_contact, "PATIENCE_S", 0.5)
    with (
        running(SecuredBroker(mechanisms=("PLAIN",), closes_in_login=True)) as broker,
        _fails("is this a listener with SASL", broker),
    ):
        _ask(broker, Security(login=_login()))


def test_client_that_was_answered_is_patient_with_brokers_that_hang_up() -> None:
    """A restarting broker is no reason to give up; nor is an answer that any client may get."""
    contact = first_contact.FirstContact()
    assert not contact.is_hopeless(ClosedEarlyError(), 0)
    assert not contact.is_hopeless(ClosedEarlyError(), first_contact.PATIENCE_S - 1)
    assert not contact.is_hopeless(ConnectionRefusedError(), first_contact.PATIENCE_S), "it is down, then"
    assert not contact.is_hopeless(ClosedEarlyError(), 100)
    contact.answered(METADATA._replace(key=18))
    assert contact.is_hopeless(ClosedEarlyError(), 100 + first_contact.PATIENCE_S)
    contact.answered(METADATA)
    assert not contact.is_hopeless(ClosedEarlyError(), 1_000)


def test_client_logs_in_again_before_its_session_ends() -> None:
    """KIP-368, on the same connection, when nothing is awaited."""
    with running(SecuredBroker(mechanisms=("PLAIN",), lifetime_ms=100_000)) as broker:
        began_s = time.monotonic()
        connection = Connection.open(broker.address, _settings(broker.address, Security(login=_login())))
        connection.call(METADATA, ALL_TOPICS)
        assert len(broker.logins) == 1
        assert began_s + 84 < connection._login_at_s < time.monotonic() + 86

        connection.send(METADATA, ALL_TOPICS)
        connection._login_at_s = began_s
        connection.send(METADATA, ALL_TOPICS)
        assert len(connection.receive()) == len(connection.receive())
        assert len(broker.logins) == 1, "an answer was awaited"
        broker.session = 1
        connection.call(METADATA, ALL_TOPICS)
        connection.close()

        assert len(broker.logins) == 2
        assert broker.connections == 1
        assert connection._login_at_s > began_s + 84


def test_cluster_opens_another_connection_where_a_session_ended() -> None:
    """A connection that was always awaiting an answer is closed by the broker."""
    with running(SecuredBroker(mechanisms=("PLAIN",), lifetime_ms=100_000)) as broker:
        with Cluster(_settings(broker.address, Security(login=_login()))) as cluster:
            cluster.partitions(())
            broker.session = 1
            assert cluster.partitions(()) == ()

        assert len(broker.logins) == broker.connections > 1


def test_broker_cannot_fill_memory_before_the_login_is_done() -> None:
    """An answer of a gigabyte is refused by its size."""
    with (
        answering((1 << 29).to_bytes(4, "big")) as broker,
        pytest.raises(ConnectionError, match="a response of 536870912 bytes"),
    ):
        Connection.open(broker.address, _settings(broker.address, Security(login=_login())))


def test_settings_show_no_secret_and_still_travel(caplog: pytest.LogCaptureFixture) -> None:
    """Guards: "secrets never in logs, reprs": whatever prints settings, connections or clusters."""
    keys = KeyStore("k", key=Secret("KEY-KEY"), password=Secret("STORE-STORE"), key_password=Secret("KEYS-KEYS"))
    trust = TrustStore("t", file="t.p12", password=Secret("TRUST-TRUST"))
    security = Security(tls=Tls(trust=trust, keys=keys), login=_login())
    with running(SecuredBroker(mechanisms=("PLAIN",))) as broker, caplog.at_level(logging.DEBUG):
        settings = _settings(broker.address, Security(login=_login()))
        with Cluster(settings) as cluster:
            cluster.partitions(())
            shown = [repr(each) for each in (security, settings, cluster, security.login)]
    travelled = pickle.loads(pickle.dumps(security))

    assert travelled == security
    assert travelled.login.password.text == PASSWORD
    hidden = (PASSWORD, "KEY-KEY", "STORE-STORE", "KEYS-KEYS", "TRUST-TRUST")
    assert [secret for secret in hidden for text in (*shown, caplog.text) if secret in text] == []


def test_denied_topic_names_the_user_and_the_right() -> None:
    """Guards: "missing ACL", from the code that brokers answer."""
    from syncline.pipeline.client.refusals import is_fine

    settings = ClientSettings((("kafka.example", 9093),), security=Security(login=_login()))
    with Cluster(settings) as cluster, pytest.raises(SecurityError) as denied:
        cluster.persist("fetch", lambda: is_fine(29, "fetch of flights-0"))

    assert isinstance(denied.value, BrokerError)
    assert str(denied.value) == (
        "the broker denies the fetch of flights-0 (TOPIC_AUTHORIZATION_FAILED): an ACL must allow Describe and Read "
        "(to write: Write) on the topic for user alice, on kafka.example:9093; or log in as a user who has that right"
    )
