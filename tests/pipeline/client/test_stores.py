"""Stores of every kind that users have are read, and one that cannot be read names its option."""

import ssl
from pathlib import Path

import pytest

from syncline.pipeline.client import stores, tls
from syncline.pipeline.client.secret import Secret
from syncline.pipeline.client.security import KeyStore, Tls, TrustStore
from syncline.pipeline.errors import OptionError
from tests.pipeline.client.certificates import Authority, Identity

TRUST, KEYS = "kafka.ssl.truststore.location", "kafka.ssl.keystore.location"
PASSWORD = "store password 1"


@pytest.fixture(scope="module")
def authority() -> Authority:
    """An authority."""
    return Authority()


@pytest.fixture(scope="module")
def identity(authority: Authority) -> Identity:
    """A client that an authority below the first one vouches for."""
    return Authority("Department", authority).issue("client")


def _written(directory: Path, content: bytes | str) -> str:
    path = directory / "store"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


@pytest.mark.parametrize("form", ["PEM file", "PEM text", "PKCS12"])
def test_trust_store_is_read(form: str, authority: Authority, tmp_path: Path) -> None:
    """The context trusts the authority in it, and nobody else."""
    store = {
        "PEM file": lambda: TrustStore(TRUST, file=_written(tmp_path, "some text\n" + authority.pem())),
        "PEM text": lambda: TrustStore(TRUST, pem=authority.pem()),
        "PKCS12": lambda: TrustStore(
            TRUST, file=_written(tmp_path, authority.pkcs12(PASSWORD)), password=Secret(PASSWORD)
        ),
    }[form]()

    trusted = tls.context(Tls(trust=store)).get_ca_certs(binary_form=True)

    assert trusted == [ssl.PEM_cert_to_DER_cert(authority.pem())]


@pytest.mark.parametrize("form", ["PEM", "PEM, key first", "PEM, encrypted", "two files", "text", "PKCS12"])
def test_key_store_is_read(form: str, identity: Identity, tmp_path: Path) -> None:
    """Whatever the form, a context takes key and chain, and no key is left on the disk."""
    key, chain = identity.key_pem(), identity.chain_pem()
    (tmp_path / "key").write_text(key)
    store = {
        "PEM": lambda: KeyStore(KEYS, file=_written(tmp_path, chain + key)),
        "PEM, key first": lambda: KeyStore(KEYS, file=_written(tmp_path, key + chain), password=Secret("needless")),
        "PEM, encrypted": lambda: KeyStore(
            KEYS, file=_written(tmp_path, identity.key_pem(PASSWORD) + chain), key_password=Secret(PASSWORD)
        ),
        "two files": lambda: KeyStore(KEYS, file=_written(tmp_path, chain), key_file=str(tmp_path / "key")),
        "text": lambda: KeyStore(KEYS, key=Secret(key), chain=chain),
        "PKCS12": lambda: KeyStore(KEYS, file=_written(tmp_path, identity.pkcs12(PASSWORD)), password=Secret(PASSWORD)),
    }[form]()
    context = _Recording()

    stores.show(context, store)

    assert context.shown.count("BEGIN CERTIFICATE") == 2
    assert "BEGIN ENCRYPTED PRIVATE KEY" in context.shown, "never as it is"
    assert "BEGIN PRIVATE KEY" not in context.shown
    assert not context.file.exists()
    assert context.mode == 0o600


class _Recording(ssl.SSLContext):
    """A context that remembers the file that it was given."""

    def __new__(cls):
        return super().__new__(cls, ssl.PROTOCOL_TLS_CLIENT)

    def load_cert_chain(self, certfile, keyfile=None, password=None) -> None:
        self.file = Path(certfile)
        self.shown, self.mode = self.file.read_text(), self.file.stat().st_mode & 0o777
        super().load_cert_chain(certfile, keyfile, password)


@pytest.mark.parametrize(
    ("content", "password", "told"),
    [
        pytest.param(b"", None, "neither a PEM file nor a PKCS12", id="empty"),
        pytest.param(b"hello", None, "neither a PEM file nor a PKCS12", id="text"),
        pytest.param(b"\xfe\xed\xfe\xed....", PASSWORD, "JKS store.*keytool -importkeystore", id="JKS"),
        pytest.param(b"\xce\xce\xce\xce....", PASSWORD, "JKS store.*keytool -importkeystore", id="JCEKS"),
        pytest.param(b"0\x82 cut", PASSWORD, "truststore.password right", id="cut PKCS12"),
        pytest.param("right", "wrong one", "truststore.password right", id="wrong password"),
        pytest.param("right", None, "set the option kafka.ssl.truststore.password", id="no password"),
        pytest.param(b"-----BEGIN CERTIFICATE-----\nx\n", None, "no certificate that can be read", id="broken PEM"),
        pytest.param(b"-----BEGIN PRIVATE KEY-----\n", None, "no certificate that can be read", id="other PEM"),
    ],
)
def test_trust_store_that_cannot_be_read_names_its_option(
    content: bytes | str, password: str | None, told: str, authority: Authority, tmp_path: Path
) -> None:
    """Guards: "unreadable store, wrong store password"; never the password."""
    file = _written(tmp_path, authority.pkcs12(PASSWORD) if content == "right" else content)
    store = TrustStore(TRUST, file=file, password=Secret(password) if password else None)

    with pytest.raises(OptionError, match=told) as refused:
        tls.context(Tls(trust=store))
    assert TRUST in str(refused.value)
    assert PASSWORD not in str(refused.value)
    assert "wrong one" not in str(refused.value)


@pytest.mark.parametrize(
    ("form", "told"),
    [
        ("no certificate", "no certificate that can be read"),
        ("no key", "no private key"),
        ("encrypted, no password", "set kafka.ssl.key.password"),
        ("encrypted, wrong password", "kafka.ssl.key.password right"),
        ("broken key", "cannot be read: is it complete"),
        ("another's key", "does not match its certificate"),
        ("trust store", "is it a trust store"),
        ("PKCS12, wrong password", "kafka.ssl.keystore.password right"),
        ("JKS", "JKS store"),
    ],
)
def test_key_store_that_cannot_be_read_names_its_option(
    form: str, told: str, authority: Authority, identity: Identity, tmp_path: Path
) -> None:
    """A sentence for each mistake."""
    key, chain = identity.key_pem(), identity.chain_pem()
    content, password = {
        "no certificate": (key, None),
        "no key": (chain, None),
        "encrypted, no password": (identity.key_pem(PASSWORD) + chain, None),
        "encrypted, wrong password": (identity.key_pem(PASSWORD) + chain, "wrong one"),
        "broken key": (key.replace("M", "N", 3) + chain, None),
        "another's key": (authority.issue("other").key_pem() + chain, None),
        "trust store": (authority.pkcs12(PASSWORD), PASSWORD),
        "PKCS12, wrong password": (identity.pkcs12(PASSWORD), "wrong one"),
        "JKS": (b"\xfe\xed\xfe\xed", PASSWORD),
    }[form]
    store = KeyStore(KEYS, file=_written(tmp_path, content), password=Secret(password) if password else None)

    with pytest.raises(OptionError, match=told) as refused:
        tls.context(Tls(keys=store))
    assert KEYS in str(refused.value)
    assert "wrong one" not in str(refused.value)


def test_store_that_is_not_there_is_named() -> None:
    """On a cluster, each machine needs it."""
    with pytest.raises(OptionError, match=r"names /no/such/file, which cannot be read .*every machine"):
        tls.context(Tls(trust=TrustStore(TRUST, file="/no/such/file")))


def test_changed_store_is_read_again(authority: Authority, tmp_path: Path) -> None:
    """Certificates are renewed under a running query."""
    settings = Tls(trust=TrustStore(TRUST, file=_written(tmp_path, authority.pem())))
    before = tls.context(settings)
    assert tls.context(settings) is before

    _written(tmp_path, authority.pem() + Authority("New Authority").pem())

    assert len(tls.context(settings).get_ca_certs()) == 2
