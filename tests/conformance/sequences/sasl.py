"""SASL where the listener has none: clients that are configured for it must learn so."""

from tests.conformance.apis import SASL_AUTHENTICATE, SASL_HANDSHAKE, every
from tests.conformance.requests import metadata
from tests.conformance.steps import Action, Step, sequence

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "GSSAPI", "none of them", "")


@sequence(*every(SASL_HANDSHAKE))
def handshakes(version: int) -> list[Action]:
    """Every mechanism is refused, and the connection stays usable."""
    asked = [Step(key=SASL_HANDSHAKE, version=version, body={"mechanism": each}) for each in MECHANISMS]
    return [*asked, metadata(1, [])]


@sequence(*every(SASL_AUTHENTICATE))
def tokens(version: int) -> list[Action]:
    """A token without a handshake, and an empty one."""
    asked = [Step(key=SASL_AUTHENTICATE, version=version, body={"auth_bytes": each}) for each in (b"\0u\0p", b"")]
    return [*asked, metadata(1, [])]
