"""How a client authenticates itself and its brokers: plain values, as options describe them.

They travel to tasks in other processes, so they hold names of files rather than open stores; `tls.py` reads the files
when a connection is made. Everything secret is a `Secret`, so that these values may be printed.
"""

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from syncline.pipeline.client.secret import Secret

Mechanism: TypeAlias = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
MECHANISMS: Final[tuple[Mechanism, ...]] = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
TlsVersion: TypeAlias = Literal["TLSv1.2", "TLSv1.3"]
TLS_VERSIONS: Final[tuple[TlsVersion, ...]] = ("TLSv1.2", "TLSv1.3")


@dataclass(frozen=True, slots=True)
class TrustStore:
    """Certificates of the authorities that may vouch for a broker: a file, PEM or PKCS12, or `pem` as text.

    `option` names where they came from, for error messages.
    """

    option: str
    file: str = ""
    pem: str = ""
    password: Secret | None = None


@dataclass(frozen=True, slots=True)
class KeyStore:
    """The private key and certificate of this client: one file, two (`key_file`), or PEM as text (`key`, `chain`)."""

    option: str
    file: str = ""
    key_file: str = ""
    key: Secret | None = None
    chain: str = ""
    password: Secret | None = None
    key_password: Secret | None = None


@dataclass(frozen=True, slots=True)
class Tls:
    """Encryption: whom to trust (None: the machine's authorities), which certificate to show, which versions to use."""

    trust: TrustStore | None = None
    keys: KeyStore | None = None
    checks_host: bool = True
    versions: tuple[TlsVersion, ...] = TLS_VERSIONS


@dataclass(frozen=True, slots=True)
class TokenSource:
    """Where a bearer token comes from: a `file`, or a `function` as `module:function`; each login asks again."""

    option: str
    file: str = ""
    function: str = ""


@dataclass(frozen=True, slots=True)
class Login:
    """A SASL mechanism with what it needs: a name and a password, or the source of a token with its extensions.

    `option` names where the name and password came from, for error messages.
    """

    mechanism: Mechanism
    option: str
    username: str = ""
    password: Secret | None = None
    token: TokenSource | None = None
    extensions: tuple[tuple[str, str], ...] = ()

    @property
    def who(self) -> str:
        """Return the user as a sentence names it."""
        return f"user {self.username}" if self.username else "the owner of the token"


@dataclass(frozen=True, slots=True)
class Security:
    """Encryption and authentication of all connections of a client; neither is Kafka's PLAINTEXT."""

    tls: Tls | None = None
    login: Login | None = None

    @property
    def protocol(self) -> str:
        """Return Kafka's name for it."""
        encrypted = "SSL" if self.tls else "PLAINTEXT"
        return f"SASL_{encrypted}" if self.login else encrypted

    @property
    def who(self) -> str:
        """Return the client as brokers know it, for a sentence about rights."""
        if self.login is not None:
            return self.login.who
        if self.tls is not None and self.tls.keys is not None:
            return f"the subject of the certificate in {self.tls.keys.option}"
        return "User:ANONYMOUS, because this client does not log in"
