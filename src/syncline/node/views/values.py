"""Views: what modules of the node use of a broker, as protocols of one property each.

A module declares what it uses by naming a view, or by combining several into a protocol of its own. The assembled
broker satisfies them structurally, and so does a substitute in a test. A view returns the current value: read it again
after every `await`.
"""

from typing import Protocol

from syncline.model.broker_config import BrokerConfig
from syncline.model.ids import BrokerId
from syncline.model.metadata import MetadataImage
from syncline.node.clock import Clock


class HasBrokerId(Protocol):
    """Which broker this is."""

    @property
    def broker_id(self) -> BrokerId:
        """Return the id of this broker."""


class HasClock(Protocol):
    """Which clock applies."""

    @property
    def clock(self) -> Clock:
        """Return the clock of the node."""


class HasConfig(Protocol):
    """How this broker is configured."""

    @property
    def config(self) -> BrokerConfig:
        """Return the broker's configuration as of now."""


class HasImage(Protocol):
    """What this broker knows about the cluster."""

    @property
    def image(self) -> MetadataImage:
        """Return the metadata as of now."""
