"""The faults of a broker, created with the first one: a broker without faults does not import their modules."""

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from syncline.node.faults.registry import Faults


class FaultsOnDemand:
    """The faults of one broker, if it has had any."""

    def __init__(self, make: "Callable[[], Faults]") -> None:
        self._make = make
        # None until the first fault begins.
        self.registry: Faults | None = None

    def made(self) -> "Faults":
        """Return the registry of faults, created on first use."""
        if self.registry is None:
            self.registry = self._make()
        return self.registry

    def close(self) -> None:
        """End all faults: the broker is stopping."""
        if self.registry is not None:
            self.registry.close()
