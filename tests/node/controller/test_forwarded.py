"""Requests that any broker forwards to the controller: one list at the broker, one at the controller."""

from syncline.node.api import forwarded
from syncline.node.controller.admin import SERVERS
from syncline.node.handlers import Handlers
from syncline.wire.api import ApiKey


def test_controller_serves_what_brokers_forward_and_what_they_ask_for_themselves() -> None:
    """A key in only one list would be forwarded without effect, or never reach the controller."""
    assert {*forwarded.KEYS, ApiKey.ALLOCATE_PRODUCER_IDS} == set(SERVERS)


def test_forwarded_keys_share_one_handler() -> None:
    """No key has its own module, which could differ from the others."""
    handlers = Handlers()

    assert {handlers.get(key) for key in forwarded.KEYS} == {forwarded.handle}
