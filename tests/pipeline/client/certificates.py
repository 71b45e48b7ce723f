"""Certificates and stores for tests, made when they are needed."""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

DAY = timedelta(days=1)


@dataclass(frozen=True)
class Identity:
    """A private key, its certificate, and the certificates between it and the authority."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate
    between: tuple[x509.Certificate, ...] = ()

    def key_pem(self, password: str = "") -> str:
        """The key as PKCS8, encrypted if there is a password."""
        encryption = (
            serialization.BestAvailableEncryption(password.encode()) if password else serialization.NoEncryption()
        )
        return self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption
        ).decode()

    def chain_pem(self) -> str:
        """The certificate, and those between it and the authority."""
        return "".join(_pem(each) for each in (self.certificate, *self.between))

    def pkcs12(self, password: str) -> bytes:
        """A key store as Java has them."""
        return pkcs12.serialize_key_and_certificates(
            b"me",
            self.key,
            self.certificate,
            self.between,
            serialization.BestAvailableEncryption(password.encode()),
        )

    def file(self, directory: Path, password: str = "") -> str:
        """Write key and chain into one PEM file, the key last; return its name."""
        path = directory / f"{self.certificate.serial_number}.pem"
        path.write_text(self.chain_pem() + self.key_pem(password))
        return str(path)


class Authority:
    """Signs certificates."""

    def __init__(self, name: str = "Test Authority", issuer: "Authority | None" = None) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._between: tuple[x509.Certificate, ...] = ()
        by_name, by_key = (issuer._name, issuer._key) if issuer else (self._name, self._key)
        self.certificate = (
            _builder(self._name, by_name, self._key.public_key(), -DAY, DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_KEY_USAGE, critical=True)
            .sign(by_key, hashes.SHA256())
        )
        if issuer:
            self._between = (self.certificate, *issuer._between)

    def issue(
        self, name: str, hosts: Sequence[str] = (), *, begins: timedelta = -DAY, ends: timedelta = DAY
    ) -> Identity:
        """Return a certificate for hosts, valid from and to a time from now."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = _builder(subject, self._name, key.public_key(), begins, ends)
        if hosts:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False
            )
        return Identity(key, builder.sign(self._key, hashes.SHA256()), self._between)

    def pem(self) -> str:
        """The authority's certificate."""
        return _pem(self.certificate)

    def file(self, directory: Path) -> str:
        """Write the authority's certificate as PEM; return the file's name."""
        path = directory / f"{self.certificate.serial_number}-authority.pem"
        path.write_text(self.pem())
        return str(path)

    def pkcs12(self, password: str) -> bytes:
        """A trust store as Java has them."""
        entry = pkcs12.PKCS12Certificate(self.certificate, b"authority")
        return pkcs12.serialize_java_truststore([entry], serialization.BestAvailableEncryption(password.encode()))


_KEY_USAGE = x509.KeyUsage(
    digital_signature=True,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, begins: timedelta, ends: timedelta
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + begins)
        .not_valid_after(now + ends)
    )


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()
