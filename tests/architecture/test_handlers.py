"""Every message of the table of versions has a handler, and mypy compares every handler with the broker."""

import re
from typing import Final

from syncline.node.handlers import Handlers
from syncline.wire.api import INTERNAL_VERSIONS, ApiKey
from tests.architecture import syntax

# Brokers send it only inside FORWARD, whose handler passes it to the controller.
INSIDE_FORWARD: Final = {ApiKey.ALLOCATE_PRODUCER_IDS}


def test_every_served_message_has_a_handler() -> None:
    """What a listener offers it also answers; no handler waits for a message that no listener takes."""
    assert set(Handlers().keys()) == {int(key) for key in INTERNAL_VERSIONS.keys() - INSIDE_FORWARD}


def test_mypy_compares_every_handler_with_the_broker() -> None:
    """A handler that is imported late is in the list that mypy reads, too."""
    text = (syntax.SOURCE / "node" / "handlers.py").read_text()
    compared = re.findall(r"^        (api_\w+)\.handle,$", text, re.MULTILINE)
    named = re.findall(r'^    "(api_\w+)",$', text, re.MULTILINE)

    assert compared == named
    assert len(named) > 20
