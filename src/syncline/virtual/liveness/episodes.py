"""What struck a cluster, and when: the fault plan as it was carried out.

The rule (`rule.py`) reads the health of brokers from here alone, never from a
broker: a broker may be wrong about itself and about the others.

Times are in ns of virtual time.
"""

from typing import NamedTuple


class Episode(NamedTuple):
    """One fault that struck: its kind, the host, the hosts at the other ends of its links, and its time."""

    kind: str
    host: str
    # Only for faults of links: the hosts that this one is cut off from, or far from.
    peers: tuple[str, ...]
    begin_ns: int
    # None while the fault lasts.
    end_ns: int | None = None

    def is_active(self, now_ns: int) -> bool:
        """Return whether the fault lasts at this instant; its first instant counts, its last does not."""
        return self.begin_ns <= now_ns and (self.end_ns is None or now_ns < self.end_ns)

    def ended_within(self, now_ns: int, span_ns: int) -> bool:
        """Return whether the fault is over at this instant, but has not been for as long as `span_ns`."""
        return self.end_ns is not None and self.end_ns <= now_ns < self.end_ns + span_ns
