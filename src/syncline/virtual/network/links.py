"""Links: the path from one host to another, in one direction, and its faults.

A link has a latency, its own random stream, and faults: extra delay, and cuts.
A cut loses nothing, since TCP retransmits: what is sent waits (`stalled`) and
arrives soon after the cut has healed. Time is in ns.
"""

import random
from dataclasses import dataclass
from typing import Protocol

from syncline.virtual.time.durations import MS, SECOND


class Stalled(Protocol):
    """Something that waits for a cut to heal."""

    def send_again(self) -> None:
        """Send what has waited."""


@dataclass(frozen=True, kw_only=True)
class NetworkSettings:
    """The behaviour of the network without faults."""

    latency_ns_min: int = 200_000
    latency_ns_max: int = 800_000
    tail_probability: float = 0.02
    tail_ns_max: int = 50 * MS
    split_probability: float = 0.05
    window_bytes: int = 256 << 10
    # How long bytes may wait in a cut link before the sender's connection breaks (a TCP user time-out).
    unacknowledged_ns_max: int = 20 * SECOND
    retransmission_ns_max: int = 200 * MS


class Link:
    """The path from `source` to `target`, one direction."""

    __slots__ = ("_settings", "cuts", "extra_ns_max", "rng", "source", "stalled", "target")

    def __init__(self, source: str, target: str, rng: random.Random, settings: NetworkSettings) -> None:
        self.source = source
        self.target = target
        self.rng = rng
        self.cuts = 0
        self.extra_ns_max = 0
        self.stalled: dict[Stalled, None] = {}
        self._settings = settings

    def latency_ns(self) -> int:
        """Return the latency of the next bytes."""
        settings = self._settings
        rng = self.rng.random
        latency_ns = settings.latency_ns_min + int(rng() * (settings.latency_ns_max - settings.latency_ns_min))
        if rng() < settings.tail_probability:
            latency_ns += int(rng() * settings.tail_ns_max)
        if self.extra_ns_max:
            latency_ns += int(rng() * self.extra_ns_max)
        return latency_ns
