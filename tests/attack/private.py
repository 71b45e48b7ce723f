"""Attacks on the port for other brokers: their private messages, cut short and with noise behind the cut.

Messages that would be carried out (a registration, a fault) are not sent whole: the port trusts what is complete.
"""

import random
from collections.abc import Sequence
from typing import Final

from syncline.wire.api import CLIENT_VERSIONS, INTERNAL_VERSIONS, ApiKey
from tests.attack.case import Size
from tests.attack.frames import CLIENT_ID, CORRELATION_ID
from tests.attack.scene import Scene
from tests.attack.stream import Stream
from tests.conformance.wire_client import request_frame

# No private message is complete with fewer bytes, but for the empty ones.
SHORT_BYTES_MAX: Final = 12
SEED: Final = 2
PRIVATE: Final = tuple(key for key in INTERNAL_VERSIONS if key not in CLIENT_VERSIONS)


def short_messages(scene: Scene, size: Size) -> Sequence[Stream]:
    """Each private message in each version, ending after 0, 1, 2, ... bytes, of zeros and of noise."""
    rng = random.Random(SEED)
    data = []
    for key in PRIVATE:
        versions = INTERNAL_VERSIONS[key]
        for version in range(versions.min, versions.max + 1):
            for length in range(SHORT_BYTES_MAX):
                data += [_message(key, version, bytes(length)), _message(key, version, rng.randbytes(length))]
    chosen = data[:: max(1, len(data) // size.count)]
    port = scene.internal_ports[scene.controller]
    return [Stream(port=port, data=chosen, connections=len(chosen), half_closes=True, hold_s=size.hold_s)]


def _message(key: ApiKey, version: int, body: bytes) -> bytes:
    return request_frame(key, version, CORRELATION_ID, body, client_id=CLIENT_ID, header_version=2)
