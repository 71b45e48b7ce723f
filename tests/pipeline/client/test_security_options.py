"""Options of encryption and authentication mean what Kafka's clients mean, and no mistake shows a secret."""

import logging

import pytest

from syncline.pipeline.client import security_options
from syncline.pipeline.client.security import Security
from syncline.pipeline.client.security_options import security
from syncline.pipeline.errors import OptionError

HUSH = "hush-hush-9"
PLAIN = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="{HUSH}";'
SCRAM = PLAIN.replace("plain.PlainLoginModule", "scram.ScramLoginModule")
BEARER = (
    'org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required extension_logicalCluster="lkc-1";'
)
SASL_SSL = {"kafka.security.protocol": "SASL_SSL"}
SSL = {"kafka.security.protocol": "SSL"}
BY_TOKEN = {**SASL_SSL, "kafka.sasl.mechanism": "OAUTHBEARER"}


def test_nothing_given_is_plaintext() -> None:
    """Kafka's default."""
    assert security({"subscribe": "flights"}) == Security()
    assert security({}).protocol == "PLAINTEXT"


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"])
def test_protocol_is_as_named(protocol: str) -> None:
    """Guards: "PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"; case does not matter."""
    login = {"kafka.sasl.mechanism": "SCRAM-SHA-512", "kafka.sasl.jaas.config": SCRAM}
    options = {"kafka.security.protocol": protocol.lower(), **(login if "SASL" in protocol else {})}

    assert security(options).protocol == protocol


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("form", ["jaas", "names"])
def test_name_and_password_come_from_a_jaas_line_or_from_options_of_their_own(mechanism: str, form: str) -> None:
    """As users of Java's clients and of librdkafka write them."""
    line = PLAIN if mechanism == "PLAIN" else SCRAM
    forms = {
        "jaas": {"kafka.sasl.mechanism": mechanism, "kafka.sasl.jaas.config": line},
        "names": {
            "kafka.sasl.mechanisms": mechanism,
            "kafka.sasl.username": "alice",
            "kafka.sasl.password": HUSH,
        },
    }

    login = security({**SASL_SSL, **forms[form]}).login

    assert login is not None
    assert login.password is not None
    assert (login.mechanism, login.username, login.password.text) == (mechanism, "alice", HUSH)


def test_token_comes_from_a_file_or_a_function() -> None:
    """By Kafka's name for a file, or by one of ours; extensions are in the JAAS line."""
    by_url = security({**BY_TOKEN, "kafka.sasl.oauthbearer.token.endpoint.url": "file:///run/my%20token"}).login
    by_file = security({**BY_TOKEN, "oauthtokenfile": "/run/token", "kafka.sasl.jaas.config": BEARER}).login
    by_function = security({**BY_TOKEN, "oauthTokenFunction": "my.tokens:current"}).login

    assert by_url
    assert by_url.token
    assert by_url.token.file == "/run/my token"
    assert by_file
    assert by_file.token
    assert by_file.token.file == "/run/token"
    assert by_file.extensions == (("logicalCluster", "lkc-1"),)
    assert by_function
    assert by_function.token
    assert by_function.token.function == "my.tokens:current"


def test_stores_come_from_files_or_from_options() -> None:
    """Each form of Kafka's and of librdkafka's."""
    files = security(
        {
            **SSL,
            "kafka.ssl.truststore.location": "/t.p12",
            "kafka.ssl.truststore.type": "pkcs12",
            "kafka.ssl.truststore.password": HUSH,
            "kafka.ssl.keystore.location": "/k.pem",
            "kafka.ssl.keystore.password": HUSH,
            "kafka.ssl.key.password": "other",
        }
    ).tls
    texts = security(
        {
            **SSL,
            "kafka.ssl.truststore.certificates": "PEM",
            "kafka.ssl.keystore.key": HUSH,
            "kafka.ssl.keystore.certificate.chain": "CHAIN",
        }
    ).tls
    librdkafka = security(
        {
            **SSL,
            "kafka.ssl.ca.location": "/ca.pem",
            "kafka.ssl.certificate.location": "/c.pem",
            "kafka.ssl.key.location": "/key.pem",
        }
    ).tls

    assert files
    assert files.trust
    assert files.keys
    assert (files.trust.file, files.keys.file) == ("/t.p12", "/k.pem")
    assert files.trust.password
    assert files.trust.password.text == HUSH
    assert files.keys.key_password
    assert files.keys.key_password.text == "other"
    assert texts
    assert texts.trust
    assert texts.trust.pem == "PEM"
    assert texts.keys
    assert texts.keys.key
    assert (texts.keys.key.text, texts.keys.chain) == (HUSH, "CHAIN")
    assert librdkafka
    assert librdkafka.trust
    assert librdkafka.trust.file == "/ca.pem"
    assert librdkafka.keys
    assert (librdkafka.keys.file, librdkafka.keys.key_file) == ("/c.pem", "/key.pem")


@pytest.mark.parametrize(
    ("given", "versions"),
    [
        ({}, ("TLSv1.2", "TLSv1.3")),
        ({"kafka.ssl.protocol": "TLSv1.2"}, ("TLSv1.2",)),
        ({"kafka.ssl.protocol": "TLSv1.3"}, ("TLSv1.2", "TLSv1.3")),
        ({"kafka.ssl.enabled.protocols": "TLSv1.3"}, ("TLSv1.3",)),
        ({"kafka.ssl.enabled.protocols": "TLSv1.3, TLSv1.2", "kafka.ssl.protocol": "TLS"}, ("TLSv1.2", "TLSv1.3")),
    ],
)
def test_versions_of_tls_are_as_named(given: dict[str, str], versions: tuple[str, ...]) -> None:
    """The list goes before the single name, as in Kafka."""
    tls = security({**SSL, **given}).tls

    assert tls
    assert tls.versions == versions


@pytest.mark.parametrize(("written", "checks"), [("https", True), ("HTTPS", True), ("", False), ("none", False)])
def test_host_names_are_checked_unless_the_option_is_empty(written: str, checks: bool) -> None:
    """Empty is Java's way to switch it off, none librdkafka's."""
    tls = security({**SSL, "kafka.ssl.endpoint.identification.algorithm": written}).tls

    assert tls
    assert tls.checks_host is checks


LOGIN = {**SASL_SSL, "kafka.sasl.mechanism": "PLAIN", "kafka.sasl.jaas.config": PLAIN}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        pytest.param({"kafka.security.protocol": "TLS"}, "write PLAINTEXT, SSL", id="protocol"),
        pytest.param({"kafka.sasl.password": HUSH}, "no effect with kafka.security.protocol PLAINTEXT", id="no use"),
        pytest.param({**SSL, "kafka.sasl.mechanism": "PLAIN"}, "write SASL_SSL there", id="login without SASL"),
        pytest.param(
            {"kafka.security.protocol": "SASL_PLAINTEXT", "kafka.ssl.key.password": HUSH},
            "write SASL_SSL there",
            id="TLS without SSL",
        ),
        pytest.param({**SASL_SSL, "kafka.sasl.jaas.config": PLAIN}, "mechanism is missing", id="no mechanism"),
        pytest.param({**LOGIN, "kafka.sasl.mechanism": "GSSAPI"}, "write one of PLAIN, SCRAM", id="Kerberos"),
        pytest.param({**LOGIN, "kafka.sasl.mechanism": "AWS_MSK_IAM"}, "write one of PLAIN, SCRAM", id="of a vendor"),
        pytest.param({**LOGIN, "kafka.sasl.mechanisms": "PLAIN"}, "set the same thing", id="mechanism twice"),
        pytest.param({**LOGIN, "kafka.sasl.mechanism": "SCRAM-SHA-256"}, "module belongs to PLAIN", id="other module"),
        pytest.param({**LOGIN, "kafka.sasl.password": HUSH}, "set the same thing", id="password twice"),
        pytest.param({**LOGIN, "kafka.sasl.jaas.config": PLAIN[:-1]}, "semicolon", id="broken line"),
        pytest.param({**LOGIN, "kafka.sasl.jaas.config": f"a.B required p={HUSH};"}, "not one of", id="module"),
        pytest.param(
            {**LOGIN, "kafka.sasl.jaas.config": PLAIN.replace(" username", " user")}, "a name and a pass", id="no name"
        ),
        pytest.param(
            {**LOGIN, "kafka.sasl.jaas.config": PLAIN.replace("alice", r"a\0l")}, "cannot be sent", id="zero character"
        ),
        pytest.param(
            {**LOGIN, "kafka.sasl.jaas.config": PLAIN.replace(";", ' tokenauth="true";')},
            "delegation token",
            id="delegation token",
        ),
        pytest.param({**SASL_SSL, "kafka.sasl.mechanism": "PLAIN", "kafka.sasl.password": HUSH}, "both", id="half"),
        pytest.param({**LOGIN, "oauthTokenFile": "/t"}, "is for the mechanism OAUTHBEARER", id="token for PLAIN"),
        pytest.param(BY_TOKEN, "needs a token", id="no token"),
        pytest.param({**BY_TOKEN, "oauthTokenFile": " "}, "name a file", id="empty file"),
        pytest.param({**BY_TOKEN, "oauthTokenFunction": "os.getcwd"}, "write module:function", id="no colon"),
        pytest.param(
            {**BY_TOKEN, "oauthTokenFunction": "a:b", "oauthTokenFile": "/t"}, "set the same thing", id="two tokens"
        ),
        pytest.param(
            {**BY_TOKEN, "kafka.sasl.oauthbearer.token.endpoint.url": f"https://me:{HUSH}@host/"},
            "oauthTokenFunction",
            id="token from the web",
        ),
        pytest.param(
            {**BY_TOKEN, "oauthTokenFile": "/t", "kafka.sasl.password": HUSH}, "logs in by a token", id="both"
        ),
        pytest.param(
            {**BY_TOKEN, "oauthTokenFile": "/t", "kafka.sasl.jaas.config": BEARER.replace("lkc", "\x01")},
            "cannot be sent",
            id="extension",
        ),
        pytest.param({**SSL, "kafka.ssl.truststore.type": "BCFKS"}, "write PEM or PKCS12", id="store type"),
        pytest.param({**SSL, "kafka.ssl.truststore.location": ""}, "is empty", id="empty location"),
        pytest.param(
            {**SSL, "kafka.ssl.truststore.location": "a", "kafka.ssl.ca.location": "b"},
            "set the same thing",
            id="two trusts",
        ),
        pytest.param({**SSL, "kafka.ssl.truststore.password": HUSH}, "without kafka.ssl.truststore.loc", id="no trust"),
        pytest.param({**SSL, "kafka.ssl.key.password": HUSH}, "without kafka.ssl.keystore.loc", id="no key store"),
        pytest.param(
            {**SSL, "kafka.ssl.keystore.password": HUSH}, "without kafka.ssl.keystore.loc", id="no key store either"
        ),
        pytest.param({**SSL, "kafka.ssl.keystore.key": HUSH}, "belong together", id="key without chain"),
        pytest.param({**SSL, "kafka.ssl.keystore.certificate.chain": "x"}, "belong together", id="chain without key"),
        pytest.param({**SSL, "kafka.ssl.certificate.location": "x"}, "belong together", id="certificate without key"),
        pytest.param({**SSL, "kafka.ssl.protocol": "TLSv1.1"}, "not safe", id="old version"),
        pytest.param({**SSL, "kafka.ssl.enabled.protocols": "TLSv1.3,SSLv3"}, "'SSLv3'", id="one old version"),
        pytest.param({**SSL, "kafka.ssl.endpoint.identification.algorithm": "ldaps"}, "write https", id="algorithm"),
        pytest.param({**SSL, "kafka.ssl.cipher.suites": "x"}, "OpenSSL chooses", id="ciphers"),
        pytest.param({**SSL, "kafka.enable.ssl.certificate.verification": "false"}, "always verified", id="no checks"),
        pytest.param({**LOGIN, "kafka.sasl.pasword": HUSH}, "did you mean kafka.sasl.password", id="misspelled"),
        pytest.param({"kafka.security.protokol": "SSL"}, "did you mean kafka.security.protocol", id="misspelled too"),
    ],
)
def test_mistakes_are_refused_with_advice_and_without_secrets(given: dict[str, str], told: str) -> None:
    """Each message names the option and says what to write."""
    with pytest.raises(OptionError, match=told) as refused:
        security(given)

    assert HUSH not in str(refused.value)


def test_options_about_java_are_passed_over_with_a_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """Guards: "those without meaning here are named once in the log"."""
    security_options._warn.cache_clear()
    given = {**LOGIN, "kafka.ssl.provider": "SunJSSE", "kafka.sasl.login.refresh.buffer.seconds": "300"}

    with caplog.at_level(logging.WARNING):
        security(given)
        security(given)

    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
        "option kafka.ssl.provider has no effect",
        "option kafka.sasl.login.refresh.buffer.seconds has no effect",
    ]


def test_a_password_in_the_clear_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    """PLAIN without TLS shows the password to anyone on the network; SCRAM does not."""
    security_options._warn.cache_clear()
    with caplog.at_level(logging.WARNING):
        scram = {"kafka.sasl.mechanism": "SCRAM-SHA-256", "kafka.sasl.jaas.config": SCRAM}
        security({**scram, "kafka.security.protocol": "SASL_PLAINTEXT"})
        assert caplog.messages == []
        security({**LOGIN, "kafka.security.protocol": "SASL_PLAINTEXT"})

    assert len(caplog.messages) == 1
    assert "can read" in caplog.text
    assert HUSH not in caplog.text
