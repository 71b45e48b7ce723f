"""The loop to which the threads of a real disk report."""

import queue
from collections.abc import Callable


class LoopOfOne:
    """Stands for the event loop: calls what the threads hand over when the test says so."""

    def __init__(self) -> None:
        self.calls: queue.SimpleQueue[tuple[Callable[..., object], tuple[object, ...]]] = queue.SimpleQueue()

    def call_soon_threadsafe(self, function: Callable[..., object], *arguments: object) -> None:
        """Remember the call."""
        self.calls.put((function, arguments))

    def run_one(self) -> None:
        """Wait for a call and make it."""
        function, arguments = self.calls.get(timeout=10)
        function(*arguments)

    def run_until(self, condition: Callable[[], object]) -> None:
        """Make calls as they come until something holds."""
        while not condition():
            self.run_one()
