"""The fault plan: what goes wrong, when and for how long, as data.

It is drawn before the run from its own random stream, so that a run can be
replayed without parts of it. Each seed draws a weight for every kind of fault
from {0, 1, 3, 6}: many runs lack a kind altogether, which gives the others room.
Targets may be roles ("leader", "controller"), resolved when the fault strikes;
roles find more bugs than names do.

A *lasting* plan has fewer and longer faults: most last longer than the cluster
needs to notice them, and between two changes of the plan there is often time to
see whether partitions accept records (`liveness/rule.py`).

Times and durations are in ns. Everything has ended by `end_ns`; the injector
(not the plan) limits power cuts, since it knows which replica has not recovered
yet.
"""

import errno
import random
from dataclasses import dataclass
from typing import Final, NamedTuple

from syncline.virtual.time.durations import MS, SECOND

KINDS: Final = (
    "kill",
    "power_cut",
    "pause",
    "cut",
    "one_way_cut",
    "delay",
    "slow_disk",
    "reset",
    "lose_lease",
    "full_disk",
)
# Only in lasting plans: a disk that refuses everything (`amount` is the errno), and a client whose request costs much
# (`amount` says which request).
LASTING_KINDS: Final = (*KINDS, "refusing_disk", "costly_request")
REFUSALS: Final = (errno.EIO, errno.EROFS, errno.EMFILE)
COSTLY_REQUESTS: Final = 4
WEIGHTS: Final = (0, 1, 3, 6)
# Faults of machines; a plan without any of the first four would prove little.
ROLES: Final = ("leader", "leader", "follower", "controller", "any")


class Fault(NamedTuple):
    """One fault: at `at_ns` `kind` strikes `target` (and `other`), for `duration_ns`."""

    at_ns: int
    kind: str
    target: str
    other: str
    duration_ns: int
    amount: int

    def __str__(self) -> str:
        pair = f"{self.target}>{self.other}" if self.other else self.target
        return f"{self.at_ns / SECOND:.3f} s {self.kind} {pair} for {self.duration_ns / SECOND:.3f} s"


@dataclass(frozen=True, kw_only=True)
class FaultSettings:
    """How many faults a run has, and how severe they are."""

    interval_ns_mean: int = 1_500 * MS
    down_ns_min: int = 20 * MS
    down_ns_max: int = 2_500 * MS
    pause_ns_max: int = 3_000 * MS
    cut_ns_mean: int = 1_000 * MS
    cut_ns_max: int = 4_500 * MS
    delay_ns_max: int = 200 * MS
    slow_disk_ns_max: int = 2_000 * MS


@dataclass(frozen=True, kw_only=True)
class LastingSettings:
    """How long the faults of a lasting plan last, and how far they are apart."""

    gap_ns_max: int = 4 * SECOND
    duration_ns_min: int = 2 * SECOND
    duration_ns_max: int = 10 * SECOND
    overlap_share: float = 0.25


def draw_plan(
    rng: random.Random, brokers: tuple[str, ...], begin_ns: int, end_ns: int, settings: FaultSettings | None = None
) -> tuple[Fault, ...]:
    """Return the faults between two instants, ordered by time."""
    settings = settings or FaultSettings()
    weights = [rng.choice(WEIGHTS) for _ in KINDS]
    if not any(weights[:4]):
        weights[rng.randrange(4)] = 3
    plan: list[Fault] = []
    at_ns = begin_ns
    while True:
        at_ns += int(rng.expovariate(1 / settings.interval_ns_mean))
        fault = _draw(rng, rng.choices(KINDS, weights)[0], at_ns, brokers, settings)
        if at_ns >= end_ns:
            return tuple(plan)
        plan.append(fault._replace(duration_ns=min(fault.duration_ns, end_ns - at_ns)))


def draw_late_answers(rng: random.Random, brokers: tuple[str, ...], begin_ns: int, end_ns: int) -> tuple[Fault, ...]:
    """Return pauses of a broker, in each of which another one is cut off, may be replaced, and comes back.

    What that one has sent to the paused one is read when the pause is over.
    """
    plan: list[Fault] = []
    at_ns = begin_ns + rng.randint(SECOND, 2 * SECOND)
    while at_ns + 8 * SECOND < end_ns:
        cut_off, paused, other = rng.sample(brokers, 3)
        plan.append(Fault(at_ns, "cut", cut_off, other, rng.randint(2_000 * MS, 3_500 * MS), 0))
        pause_ns = rng.randint(5 * SECOND, 7 * SECOND)
        plan.append(Fault(at_ns + rng.randint(0, 400 * MS), "pause", paused, "", pause_ns, 0))
        at_ns += rng.randint(9 * SECOND, 12 * SECOND)
    return tuple(plan)


def draw_lasting_plan(
    rng: random.Random, brokers: tuple[str, ...], begin_ns: int, end_ns: int, settings: LastingSettings | None = None
) -> tuple[Fault, ...]:
    """Return the faults of a lasting plan between two instants, ordered by time."""
    settings = settings or LastingSettings()
    weights = [rng.choice(WEIGHTS) for _ in LASTING_KINDS]
    if not any(weights):
        weights[rng.randrange(len(weights))] = 1
    plan: list[Fault] = []
    at_ns = begin_ns + rng.randint(0, settings.gap_ns_max)
    while at_ns < end_ns:
        fault = _draw(rng, rng.choices(LASTING_KINDS, weights)[0], at_ns, brokers, FaultSettings())
        if fault.duration_ns:
            lasting_ns = rng.randint(settings.duration_ns_min, settings.duration_ns_max)
            fault = fault._replace(duration_ns=min(lasting_ns, end_ns - at_ns))
        plan.append(fault)
        # Mostly the next fault strikes when this one is over; sometimes the two overlap.
        is_overlapping = rng.random() < settings.overlap_share
        begin_ns = at_ns if is_overlapping else at_ns + fault.duration_ns
        at_ns = begin_ns + rng.randint(0, settings.gap_ns_max)
    return tuple(plan)


def _draw(rng: random.Random, kind: str, at_ns: int, brokers: tuple[str, ...], settings: FaultSettings) -> Fault:
    target = rng.choice((*ROLES, *brokers))
    other = ""
    duration_ns = rng.randint(settings.down_ns_min, settings.down_ns_max)
    amount = 0
    if kind == "pause":
        duration_ns = rng.randint(10 * MS, settings.pause_ns_max)
    elif kind in {"cut", "one_way_cut"}:
        other = rng.choice(("all", "client", *brokers))
        duration_ns = min(int(rng.expovariate(1 / settings.cut_ns_mean)), settings.cut_ns_max)
        amount = rng.randrange(2)  # which way, when only one
    elif kind == "delay":
        other = rng.choice(("all", *brokers))
        amount = rng.randint(5 * MS, settings.delay_ns_max)
    elif kind == "slow_disk":
        amount = rng.randint(10 * MS, settings.slow_disk_ns_max)
    elif kind == "refusing_disk":
        amount = rng.choice(REFUSALS)
    elif kind == "costly_request":
        duration_ns = 0
        amount = rng.randrange(COSTLY_REQUESTS)
    elif kind in {"reset", "lose_lease"}:
        duration_ns = 0
    return Fault(at_ns, kind, target, other, duration_ns, amount)
