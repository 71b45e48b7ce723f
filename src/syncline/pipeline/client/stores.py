"""Stores: certificates and private keys in the files that Java and OpenSSL users have, as what Python's `ssl` takes.

PEM and PKCS12 are told apart by their first bytes, not by their names: `keytool` has written PKCS12 into files named
`.jks` since Java 9. Old JKS files can only be read by Java; the message says how to convert one.

A private key never reaches the disk as it is: `ssl` reads keys from files only, so the key is encrypted with a
password that is thrown away, in a file that only this user may read, for the moment of reading.
"""

import os
import secrets
import ssl
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from syncline.pipeline.client.secret import Secret
from syncline.pipeline.client.security import KeyStore, TrustStore
from syncline.pipeline.errors import OptionError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
    from cryptography.x509 import Certificate

_STORE_BYTES_MAX: Final = 16 << 20
_BEGIN: Final = b"-----BEGIN "
_JAVA_MAGIC: Final = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
_DER_SEQUENCE: Final = b"\x30"
_ONE_TIME_BYTES: Final = 24


def trust(context: ssl.SSLContext, store: TrustStore) -> None:
    """Let a context trust exactly the certificates of a store; raise `OptionError` if it cannot be read."""
    content = _read(store.file, store.option) if store.file else store.pem.encode()
    pem = content if _is_pem(content, store.option) else _trusted_of_pkcs12(content, store)
    try:
        context.load_verify_locations(cadata=pem.decode("ascii", errors="ignore"))
    except (ssl.SSLError, ValueError):
        raise OptionError(
            f"option {store.option} has no certificate that can be read: "
            "it must hold the certificates of the authorities that signed the brokers' certificates"
        ) from None


def show(context: ssl.SSLContext, store: KeyStore) -> None:
    """Let a context show the store's certificate to brokers; raise `OptionError` if it cannot be read."""
    key, chain = _identity(store)
    from cryptography.hazmat.primitives import serialization

    one_time = secrets.token_urlsafe(_ONE_TIME_BYTES)
    encrypted = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(one_time.encode()),
    )
    pem = encrypted + b"".join(each.public_bytes(serialization.Encoding.PEM) for each in chain)
    handle, name = tempfile.mkstemp(prefix="syncline-", suffix=".pem")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(pem)
        context.load_cert_chain(name, password=one_time)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise OptionError(f"option {store.option} has a private key that does not match its certificate") from None
        raise OptionError(
            f"option {store.option} has a key or certificate that OpenSSL refuses: {error.reason}"
        ) from None
    finally:
        Path(name).unlink()


def _identity(store: KeyStore) -> "tuple[PrivateKeyTypes, Sequence[Certificate]]":
    """Return the private key and the certificates that belong to it, the client's own first."""
    if store.key is not None:
        return _of_pem(store.key.text.encode(), store.chain.encode(), store)
    content = _read(store.file, store.option)
    if not _is_pem(content, store.option):
        return _of_pkcs12(content, store)
    return _of_pem(_read(store.key_file, "kafka.ssl.key.location") if store.key_file else content, content, store)


def _of_pem(key: bytes, chain: bytes, store: KeyStore) -> "tuple[PrivateKeyTypes, Sequence[Certificate]]":
    from cryptography import x509
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization

    password = store.key_password or store.password
    try:
        certificates = x509.load_pem_x509_certificates(chain)
    except ValueError:
        raise OptionError(f"option {store.option} has no certificate that can be read") from None
    block = _private_key_in(key)
    if not block:
        raise OptionError(f"option {store.option} has no private key: it must hold key and certificate in PEM")
    if b"ENCRYPTED" not in block:
        password = None  # Java, too, ignores a password that nothing needs.
    elif password is None:
        raise OptionError(f"option {store.option} has an encrypted private key: set kafka.ssl.key.password")
    try:
        loaded = serialization.load_pem_private_key(block, password.text.encode() if password else None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        advice = "is the option kafka.ssl.key.password right?" if password else "is it complete?"
        raise OptionError(f"option {store.option} has a private key that cannot be read: {advice}") from None
    return loaded, _own_first(loaded, certificates, store)


def _private_key_in(pem: bytes) -> bytes:
    """Return the first private key of a PEM file, empty if there is none; certificates may stand before it."""
    for part in pem.split(_BEGIN)[1:]:
        label, _, rest = part.partition(b"-----")
        end = b"-----END " + label + b"-----"
        if label.endswith(b"PRIVATE KEY") and end in rest:
            return _BEGIN + label + b"-----" + rest.partition(end)[0] + end + b"\n"
    return b""


def _own_first(
    key: "PrivateKeyTypes", certificates: "Sequence[Certificate]", store: KeyStore
) -> "Sequence[Certificate]":
    """Return the chain with the key's own certificate first, wherever it stood."""
    own = [each for each in certificates if each.public_key() == key.public_key()]
    if not own:
        raise OptionError(f"option {store.option} has a private key that does not match its certificate")
    return [own[0], *(each for each in certificates if each != own[0])]


def _of_pkcs12(content: bytes, store: KeyStore) -> "tuple[PrivateKeyTypes, Sequence[Certificate]]":
    from cryptography.hazmat.primitives.serialization import pkcs12

    password = store.password or store.key_password
    try:
        loaded = pkcs12.load_pkcs12(content, password.text.encode() if password else None)
    except ValueError:
        _refuse_pkcs12(store.option, "keystore", password)
    if loaded.key is None or loaded.cert is None:
        raise OptionError(
            f"option {store.option} has no private key with a certificate: is it a trust store? "
            "Its option is kafka.ssl.truststore.location"
        )
    return loaded.key, [loaded.cert.certificate, *(each.certificate for each in loaded.additional_certs)]


def _trusted_of_pkcs12(content: bytes, store: TrustStore) -> bytes:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.serialization import pkcs12

    try:
        loaded = pkcs12.load_pkcs12(content, store.password.text.encode() if store.password else None)
    except ValueError:
        _refuse_pkcs12(store.option, "truststore", store.password)
    return b"".join(each.certificate.public_bytes(serialization.Encoding.PEM) for each in loaded.additional_certs)


def _refuse_pkcs12(option: str, kind: str, password: Secret | None) -> NoReturn:
    name = f"kafka.ssl.{kind}.password"
    advice = f"is the option {name} right?" if password else f"set the option {name}"
    raise OptionError(f"option {option} has a PKCS12 store that cannot be opened: {advice}") from None


def _read(file: str, option: str) -> bytes:
    try:
        with Path(file).open("rb") as opened:
            content = opened.read(_STORE_BYTES_MAX)
    except OSError as error:
        raise OptionError(
            f"option {option} names {file}, which cannot be read ({error.strerror}): "
            "it must be on every machine that runs this query"
        ) from None
    return content


def _is_pem(content: bytes, option: str) -> bool:
    """Return whether this is PEM, False for PKCS12; raise `OptionError` for everything else."""
    if _BEGIN in content:
        return True
    if content.startswith(_JAVA_MAGIC):
        raise OptionError(
            f"option {option} has a JKS store, which only Java can read: convert it with "
            "keytool -importkeystore -srckeystore OLD -destkeystore NEW -deststoretype PKCS12"
        )
    if not content.startswith(_DER_SEQUENCE):
        raise OptionError(f"option {option} has neither a PEM file nor a PKCS12 store")
    return False
