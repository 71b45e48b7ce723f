"""Options of encryption and authentication, by the names that users of Kafka's clients and of librdkafka know.

Everything is checked while a query is planned, before any broker is asked; only files are opened later, by each
process that connects. No message repeats a value that may be secret.

An option that would have no effect is an error here: Kafka's clients ignore a password without a protocol that uses it,
and then wait in silence. Options that only choose between Java's implementations are ignored with a line in the log.

Source: Kafka's client configurations; librdkafka's CONFIGURATION page; KIP-651 (PEM), KIP-1139 (tokens from files).
"""

import difflib
import logging
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Final, NoReturn
from urllib.parse import unquote, urlsplit

from syncline.pipeline.client import jaas
from syncline.pipeline.client.sasl import extension_problem
from syncline.pipeline.client.secret import Secret
from syncline.pipeline.client.security import (
    MECHANISMS,
    TLS_VERSIONS,
    KeyStore,
    Login,
    Mechanism,
    Security,
    Tls,
    TlsVersion,
    TokenSource,
    TrustStore,
)
from syncline.pipeline.errors import OptionError

log = logging.getLogger(__name__)

PROTOCOL: Final = "kafka.security.protocol"
TOKEN_FILE: Final = "oauthTokenFile"  # noqa: S105 -- the name of an option
TOKEN_FUNCTION: Final = "oauthTokenFunction"  # noqa: S105 -- the name of an option

_JAAS: Final = "kafka.sasl.jaas.config"
_USERNAME: Final = "kafka.sasl.username"
_PASSWORD: Final = "kafka.sasl.password"  # noqa: S105 -- the name of an option
_TOKEN_URL: Final = "kafka.sasl.oauthbearer.token.endpoint.url"  # noqa: S105 -- the name of an option
_TRUST: Final = "kafka.ssl.truststore"
_KEYS: Final = "kafka.ssl.keystore"
_KEY_PASSWORD: Final = "kafka.ssl.key.password"  # noqa: S105 -- the name of an option
_HOST_CHECK: Final = "kafka.ssl.endpoint.identification.algorithm"
_VERSIONS: Final = "kafka.ssl.enabled.protocols"
_VERSION: Final = "kafka.ssl.protocol"

_TLS_NAMES: Final = (
    *(f"{_TRUST}.{end}" for end in ("location", "type", "password", "certificates")),
    *(f"{_KEYS}.{end}" for end in ("location", "type", "password", "key", "certificate.chain")),
    _KEY_PASSWORD,
    _HOST_CHECK,
    _VERSIONS,
    _VERSION,
    "kafka.ssl.ca.location",
    "kafka.ssl.certificate.location",
    "kafka.ssl.key.location",
)
_MECHANISM_NAMES: Final = ("kafka.sasl.mechanism", "kafka.sasl.mechanisms")
_SASL_NAMES: Final = (*_MECHANISM_NAMES, _JAAS, _USERNAME, _PASSWORD, _TOKEN_URL)
# Options of ours, which Kafka's clients do not have.
OWN_NAMES: Final = (TOKEN_FILE, TOKEN_FUNCTION)
NAMES: Final = (PROTOCOL, *_TLS_NAMES, *_SASL_NAMES, *OWN_NAMES)

_WITHOUT_EFFECT: Final = (
    "kafka.security.providers",
    "kafka.ssl.provider",
    "kafka.ssl.keymanager.algorithm",
    "kafka.ssl.trustmanager.algorithm",
    "kafka.ssl.secure.random.implementation",
    "kafka.sasl.login.",
    "kafka.sasl.kerberos.",
    "kafka.sasl.client.callback.handler.class",
    "kafka.sasl.oauthbearer.",
)
_REFUSED: Final = {
    "kafka.ssl.engine.factory.class": "this client runs no Java classes; remove it",
    "kafka.ssl.cipher.suites": "OpenSSL chooses the cipher; remove it",
    "kafka.enable.ssl.certificate.verification": (
        "certificates are always verified; name their authority in kafka.ssl.truststore.location"
    ),
}
_OURS: Final = ("kafka.ssl.", "kafka.sasl.", "kafka.security.", "kafka.enable.ssl.")
_STORE_TYPES: Final = ("PEM", "PKCS12", "JKS")
_MODULES: Final[Mapping[str, tuple[Mechanism, ...]]] = {
    "PlainLoginModule": ("PLAIN",),
    "ScramLoginModule": ("SCRAM-SHA-256", "SCRAM-SHA-512"),
    "OAuthBearerLoginModule": ("OAUTHBEARER",),
}
_EXTENSION: Final = "extension_"


def is_security_option(name: str) -> bool:
    """Return whether this module judges an option of this name, in lower case or as Kafka writes it."""
    return name.lower().startswith(_OURS) or name.lower() in {own.lower() for own in OWN_NAMES}


def security(options: Mapping[str, str]) -> Security:
    """Return what those of the options say that belong to this module; raise `OptionError` for a wrong one."""
    lowered = {name.lower(): value for name, value in options.items() if is_security_option(name)}
    given = {name: lowered.pop(name.lower()) for name in NAMES if name.lower() in lowered}
    _check_others(lowered)
    protocol = given.pop(PROTOCOL, "PLAINTEXT").strip().upper()
    if protocol not in {"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"}:
        _refuse(PROTOCOL, protocol, "write PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL")
    with_tls, with_login = protocol.endswith("SSL"), protocol.startswith("SASL_")
    for name in given:
        if name in _TLS_NAMES and not with_tls:
            _superfluous(name, protocol, "SASL_SSL" if with_login else "SSL")
        if name not in _TLS_NAMES and not with_login:
            _superfluous(name, protocol, "SASL_SSL" if with_tls else "SASL_PLAINTEXT or SASL_SSL")
    login = _login(given) if with_login else None
    if login is not None and not with_tls and not login.mechanism.startswith("SCRAM"):
        _warn(f"option {PROTOCOL} is {protocol}: anyone on the network can read and use what {login.mechanism} sends")
    return Security(tls=_tls(given) if with_tls else None, login=login)


def _refuse(name: str, value: str, advice: str) -> NoReturn:
    raise OptionError(f"option {name} cannot be {value!r}: {advice}")


def _superfluous(name: str, protocol: str, wanted: str) -> NoReturn:
    raise OptionError(f"option {name} has no effect with {PROTOCOL} {protocol}: write {wanted} there, or remove it")


@cache
def _warn(message: str) -> None:
    """Log once in a process: each plan of a stream reads the options anew."""
    log.warning("%s", message)


def _check_others(options: Mapping[str, str]) -> None:
    """Raise `OptionError` for the first option that is refused or unknown; log those without effect."""
    for name in options:
        if name in _REFUSED:
            raise OptionError(f"option {name} is not supported: {_REFUSED[name]}")
        if not name.startswith(_WITHOUT_EFFECT):
            close = difflib.get_close_matches(name, NAMES, n=1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise OptionError(f"option {name} does not exist{hint}")
        _warn(f"option {name} has no effect: it only affects Java clients")


def _only_one(given: Mapping[str, str], names: Iterable[str]) -> str | None:
    """Return which of these options is there, None for none; raise `OptionError` for two."""
    found = [name for name in names if name in given]
    if len(found) > 1:
        raise OptionError(f"options {' and '.join(found)} set the same thing: keep one of them")
    return found[0] if found else None


def _tls(given: Mapping[str, str]) -> Tls:
    for name in (f"{_TRUST}.type", f"{_KEYS}.type"):
        if given.get(name, "PEM").upper() not in _STORE_TYPES:
            _refuse(name, given[name], "write PEM or PKCS12, and convert other stores with keytool -importkeystore")
    check = given.get(_HOST_CHECK, "https").strip().lower()
    if check not in {"https", "", "none"}:
        _refuse(_HOST_CHECK, check, "write https, or leave it empty to accept a certificate for any host")
    if check != "https":
        _warn(f"{_HOST_CHECK} is off: any host with a trusted certificate can impersonate the broker")
    return Tls(_trust(given), _keys(given), checks_host=check == "https", versions=_versions(given))


def _trust(given: Mapping[str, str]) -> TrustStore | None:
    name = _only_one(given, (f"{_TRUST}.location", f"{_TRUST}.certificates", "kafka.ssl.ca.location"))
    if name is None or name == f"{_TRUST}.certificates":
        _without_store(given, f"{_TRUST}.password", f"{_TRUST}.location")
    if name is None:
        return None
    _not_empty(given, name)
    if name == f"{_TRUST}.certificates":
        return TrustStore(name, pem=given[name])
    return TrustStore(name, file=given[name], password=_secret(given, f"{_TRUST}.password"))


def _keys(given: Mapping[str, str]) -> KeyStore | None:
    name = _only_one(given, (f"{_KEYS}.location", f"{_KEYS}.key", "kafka.ssl.certificate.location"))
    chain, key_file = f"{_KEYS}.certificate.chain", "kafka.ssl.key.location"
    needs = {chain: f"{_KEYS}.key", key_file: "kafka.ssl.certificate.location"}
    for part, whole in needs.items():
        if (part in given) != (name == whole):
            raise OptionError(f"options {whole} and {part} belong together: set both, or neither")
    if name != f"{_KEYS}.location":
        _without_store(given, f"{_KEYS}.password", f"{_KEYS}.location")
    if name is None:
        _without_store(given, _KEY_PASSWORD, f"{_KEYS}.location")
        return None
    _not_empty(given, name)
    password, key_password = _secret(given, f"{_KEYS}.password"), _secret(given, _KEY_PASSWORD)
    if name == f"{_KEYS}.key":
        return KeyStore(name, key=_secret(given, name), chain=given[chain], key_password=key_password)
    return KeyStore(
        name, file=given[name], key_file=given.get(key_file, ""), password=password, key_password=key_password
    )


def _without_store(given: Mapping[str, str], name: str, store: str) -> None:
    if name in given:
        raise OptionError(f"option {name} has no effect without {store}: set both, or remove it")


def _not_empty(given: Mapping[str, str], name: str) -> None:
    if not given[name].strip():
        raise OptionError(f"option {name} is empty: write a value, or remove it")


def _secret(given: Mapping[str, str], name: str) -> Secret | None:
    return Secret(given[name]) if given.get(name) else None


def _versions(given: Mapping[str, str]) -> tuple[TlsVersion, ...]:
    """Return the versions of TLS to speak; the older option names the newest of them."""
    newest = given.get(_VERSION, "TLS").strip()
    if newest not in {"TLS", *TLS_VERSIONS}:
        _refuse(_VERSION, newest, "write TLSv1.3 or TLSv1.2; older ones are not safe")
    if _VERSIONS not in given:
        return ("TLSv1.2",) if newest == "TLSv1.2" else TLS_VERSIONS
    words = [word.strip() for word in given[_VERSIONS].split(",")]
    unknown = [word for word in words if word not in TLS_VERSIONS]
    if unknown:
        _refuse(_VERSIONS, unknown[0], "write TLSv1.2,TLSv1.3 or one of them; older ones are not safe")
    return tuple(version for version in TLS_VERSIONS if version in words)


def _login(given: Mapping[str, str]) -> Login:
    name = _only_one(given, _MECHANISM_NAMES)
    written = given[name].strip().upper() if name else ""
    mechanism = next((each for each in MECHANISMS if each == written), None)
    if name is None:
        raise OptionError(f"option kafka.sasl.mechanism is missing: write {', '.join(MECHANISMS)}")
    if mechanism is None:
        _refuse(name, written, f"write one of {', '.join(MECHANISMS)}")
    entry = _entry(given, mechanism)
    return _by_token(given, entry) if mechanism == "OAUTHBEARER" else _by_name(given, mechanism, entry)


def _entry(given: Mapping[str, str], mechanism: Mechanism) -> jaas.JaasEntry | None:
    """Return the JAAS line, None without one; its module must be that of the mechanism."""
    if _JAAS not in given:
        return None
    try:
        entry = jaas.parse(given[_JAAS])
    except jaas.JaasError as error:
        raise OptionError(
            f"option {_JAAS} cannot be read: {error}; write "
            'org.apache.kafka.common.security.plain.PlainLoginModule required username="..." password="...";'
        ) from None
    if entry.module not in _MODULES:
        raise OptionError(f"option {_JAAS} names a login module that is not one of {', '.join(_MODULES)}")
    if mechanism not in _MODULES[entry.module]:
        raise OptionError(
            f"option {_JAAS} has the {entry.module}, but kafka.sasl.mechanism is {mechanism}: "
            f"the module belongs to {' and '.join(_MODULES[entry.module])}"
        )
    return entry


def _by_name(given: Mapping[str, str], mechanism: Mechanism, entry: jaas.JaasEntry | None) -> Login:
    for name in (*OWN_NAMES, _TOKEN_URL):
        if name in given:
            raise OptionError(f"option {name} is for the mechanism OAUTHBEARER, not {mechanism}")
    if entry is None:
        option = f"{_USERNAME} or {_PASSWORD}"
        username, password = given.get(_USERNAME, ""), Secret(given.get(_PASSWORD, ""))
    else:
        option = _JAAS
        _only_one(given, (_JAAS, _USERNAME))
        _only_one(given, (_JAAS, _PASSWORD))
        if "tokenauth" in entry.options:
            raise OptionError(f"option {_JAAS} has a delegation token, which is not supported: write a user's password")
        username = entry.options.get("username", Secret("")).text
        password = entry.options.get("password", Secret(""))
    if not username or not password.text:
        raise OptionError(
            f"{mechanism} needs a name and a password: set {_JAAS}, as for Kafka's Java clients, "
            f"or both {_USERNAME} and {_PASSWORD}"
        )
    if not _is_sendable(username + password.text):
        raise OptionError(f"option {option} has a character in the name or password that cannot be sent")
    return Login(mechanism, option, username=username, password=password)


def _is_sendable(text: str) -> bool:
    """Return whether this is Unicode without the zero that separates a name from a password."""
    try:
        return b"\0" not in text.encode()
    except UnicodeEncodeError:
        return False


def _by_token(given: Mapping[str, str], entry: jaas.JaasEntry | None) -> Login:
    for other in (_USERNAME, _PASSWORD):
        if other in given:
            raise OptionError(f"option {other} has no effect with OAUTHBEARER, which logs in by a token; remove it")
    name = _only_one(given, (TOKEN_FILE, TOKEN_FUNCTION, _TOKEN_URL))
    if name is None:
        raise OptionError(
            f"OAUTHBEARER needs a token: set {TOKEN_FILE} to a file that has it, or {TOKEN_FUNCTION} to module:function"
        )
    return Login("OAUTHBEARER", name, token=_token_source(name, given[name].strip()), extensions=_extensions(entry))


def _token_source(name: str, value: str) -> TokenSource:
    if name == TOKEN_FILE and value:
        return TokenSource(name, file=value)
    if name == TOKEN_FUNCTION:
        module, colon, function = value.partition(":")
        if colon and function.isidentifier() and all(part.isidentifier() for part in module.split(".")):
            return TokenSource(name, function=value)
        _refuse(name, value, "write module:function, such as mycompany.tokens:current")
    url = urlsplit(value)
    if name == _TOKEN_URL and url.scheme == "file" and url.path:
        return TokenSource(name, file=unquote(url.path))
    raise OptionError(
        f"option {name} must name a file of this machine: write file:///path/of/token, or name a function "
        f"that returns the token in the option {TOKEN_FUNCTION}"
    )


def _extensions(entry: jaas.JaasEntry | None) -> tuple[tuple[str, str], ...]:
    """Return the SASL extensions of a JAAS line (KIP-342)."""
    found = []
    for name, value in entry.options.items() if entry else ():
        if name.startswith(_EXTENSION):
            problem = extension_problem(name.removeprefix(_EXTENSION), value.text)
            if problem is not None:
                raise OptionError(f"option {_JAAS} has {name}, which cannot be sent: {problem}")
            found.append((name.removeprefix(_EXTENSION), value.text))
    return tuple(found)
