"""Views of a broker's parts: protocols like those of `values.py`, whose properties are classes of the node.

A handler's first argument is a protocol: one of these, or a combination declared beside the handler. `handlers.py` has
mypy check that the assembled broker satisfies all of them.
"""

from collections.abc import Coroutine, Mapping
from typing import Any, Protocol

from syncline.model.ids import TopicPartition
from syncline.node.controller.active import ActiveController
from syncline.node.groups.coordinator import GroupCoordinator
from syncline.node.partitions.partition import Partition


class HasPartitions(Protocol):
    """Which partitions this broker hosts."""

    @property
    def partitions(self) -> Mapping[TopicPartition, Partition]:
        """Return the hosted partitions, led or followed."""


class HasGroups(Protocol):
    """How group members are served."""

    @property
    def groups(self) -> GroupCoordinator:
        """Return the group coordinator of this broker."""


class ControllerSeat(Protocol):
    """Access to the controller role, while this broker has it."""

    @property
    def active(self) -> ActiveController | None:
        """Return the role; None while another broker is controller."""


class MayBeController(Protocol):
    """A broker that may be the controller."""

    @property
    def controller(self) -> ControllerSeat:
        """Return the channel to the controller, which may be this broker itself."""


class RunsTasks(Protocol):
    """How coroutines are run."""

    def spawn(self, coroutine: Coroutine[Any, Any, Any], /) -> object:
        """Run a coroutine as a task that the broker owns."""
