"""What a failure of TLS means, in a sentence that names the address and what to correct.

OpenSSL's reasons name its functions and alerts; a user has options, certificates and ports. A retry fixes
none of these failures.

Source: the names and numbers are those of OpenSSL 1.1.1 to 3.x.
"""

import ssl
from typing import Final

from syncline.pipeline.client.security import Tls
from syncline.pipeline.client.settings import Address

_EXPIRED: Final = 10
_NOT_YET_VALID: Final = 9
# No issuer, a self-signed certificate alone or at the end of a chain, no issuer here, and an invalid authority.
_UNKNOWN_AUTHORITY: Final = frozenset({2, 18, 19, 20, 21, 24})
_OTHER_HOST: Final = frozenset({62, 64})
# What OpenSSL makes of bytes that are not TLS at all.
_NOT_TLS: Final = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG"})
_VERSION: Final = ("PROTOCOL_VERSION", "UNSUPPORTED_PROTOCOL", "NO_PROTOCOLS_AVAILABLE")
_ABOUT_OUR_CERTIFICATE: Final = (
    "CERTIFICATE_REQUIRED",
    "HANDSHAKE_FAILURE",
    "BAD_CERTIFICATE",
    "CERTIFICATE_UNKNOWN",
    "CERTIFICATE_EXPIRED",
    "CERTIFICATE_REVOKED",
    "UNSUPPORTED_CERTIFICATE",
    "UNKNOWN_CA",
    "ACCESS_DENIED",
    "DECRYPT_ERROR",
)


def sentence(error: ssl.SSLError, address: Address, tls: Tls) -> str | None:
    """Return what is wrong and what to do, None for a failure that may pass."""
    where = f"{address[0]}:{address[1]}"
    if isinstance(error, ssl.SSLCertVerificationError):
        return _about_broker(error, where)
    reason = error.reason or ""
    if reason in _NOT_TLS:
        return no_tls(where)
    if any(word in reason for word in _VERSION):
        return f"{where} and this client have no TLS version in common: set the option kafka.ssl.enabled.protocols"
    if "ALERT" in reason and any(word in reason for word in _ABOUT_OUR_CERTIFICATE):
        return _about_us(reason, where, tls)
    return None


def no_tls(where: str) -> str:
    """Return the sentence about a listener without TLS; `where` may be "it" after one that names it."""
    return (
        f"{where} does not speak TLS: set the option kafka.security.protocol to PLAINTEXT or SASL_PLAINTEXT, "
        "or name the TLS listener in kafka.bootstrap.servers"
    )


def only_tls(where: str) -> str:
    """Return the sentence about a listener with TLS for a client without it."""
    return (
        f"{where} speaks TLS: set the option kafka.security.protocol to SSL or SASL_SSL, "
        "or name the listener without TLS in kafka.bootstrap.servers"
    )


def _about_broker(error: ssl.SSLCertVerificationError, where: str) -> str:
    if error.verify_code == _EXPIRED:
        return (
            f"the certificate of {where}, or of its authority, has expired: renew it at the broker; "
            "no option of this query helps, unless this machine's clock is wrong"
        )
    if error.verify_code == _NOT_YET_VALID:
        return f"the certificate of {where} is not valid yet: check this machine's clock, or renew the certificate"
    if error.verify_code in _UNKNOWN_AUTHORITY:
        return (
            f"the certificate of {where} is signed by an authority that this client does not trust: name that "
            "authority's certificate in the option kafka.ssl.truststore.location (or kafka.ssl.ca.location)"
        )
    if error.verify_code in _OTHER_HOST:
        return (
            f"the certificate of {where} is for another host: write a name that the certificate has in "
            "kafka.bootstrap.servers and the brokers' advertised.listeners, or set the option "
            "kafka.ssl.endpoint.identification.algorithm to nothing, which accepts any host with a trusted certificate"
        )
    return f"the certificate of {where} is refused: {error.verify_message}"


def _about_us(reason: str, where: str, tls: Tls) -> str:
    if tls.keys is None:
        return (
            f"{where} requires a certificate of this client: set the option kafka.ssl.keystore.location "
            f"(OpenSSL says {reason})"
        )
    return (
        f"{where} refuses this client's certificate: correct the option {tls.keys.option}, or make the brokers "
        f"trust the authority that signed it (OpenSSL says {reason})"
    )
