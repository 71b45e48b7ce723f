"""Steps that wait until every broker knows of a change."""

from tests.conformance.requests import create_topics, metadata, new_topic
from tests.conformance.steps import Action, Pause, Step, broker

BROKERS = 3
SETTLED_MS = 30


class Barriers:
    """The barriers of one sequence.

    A change may have been refused, so there is nothing in particular to wait for: a topic is made behind it, and
    brokers learn of things in order.
    """

    def __init__(self) -> None:
        self._count = 0

    def after(self, step: Step, pause_ms: int = SETTLED_MS) -> list[Action]:
        """Return the change, and what waits until all brokers know of it."""
        return [step, *self.wait(pause_ms)]

    def wait(self, pause_ms: int = SETTLED_MS) -> list[Action]:
        """Return what waits until all brokers know of everything so far."""
        self._count += 1
        mark = f"mark{self._count}"
        known = {"topics.0.error_code": 0, "topics.0.partitions.0.error_code": 0}
        return [
            create_topics(7, new_topic(mark), quiet=True),
            *(metadata(9, [mark], to=broker(rank), settle=known, quiet=True) for rank in range(BROKERS)),
            Pause(pause_ms),
        ]
