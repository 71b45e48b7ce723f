"""Every message of the table of versions has a handler; `tests/node/test_handlers.py` looks at the handlers."""

from typing import Final

from syncline.node.handlers import Handlers
from syncline.wire.api import INTERNAL_VERSIONS, ApiKey

# Brokers send it only inside FORWARD, whose handler passes it to the controller.
INSIDE_FORWARD: Final = {ApiKey.ALLOCATE_PRODUCER_IDS}


def test_every_served_message_has_a_handler() -> None:
    """What a listener offers it also answers; no handler waits for a message that no listener takes."""
    assert set(Handlers().keys()) == {int(key) for key in INTERNAL_VERSIONS.keys() - INSIDE_FORWARD}
