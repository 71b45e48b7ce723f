"""The faults of a broker, made with the first one: a broker without faults does not even import how to have them."""

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from syncline.node.faults.registry import Faults


class FaultsOnDemand:
    """The faults of one broker, if it ever had any."""

    def __init__(self, make: "Callable[[], Faults]") -> None:
        self._make = make
        # None until somebody has asked for a fault.
        self.registry: Faults | None = None

    def made(self) -> "Faults":
        """Return the registry of faults, making it if need be."""
        if self.registry is None:
            self.registry = self._make()
        return self.registry

    def close(self) -> None:
        """End all faults: the broker is stopping."""
        if self.registry is not None:
            self.registry.close()
