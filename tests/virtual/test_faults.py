"""Fault plans: data, drawn from a seed."""

from syncline.virtual.determinism.streams import stream
from syncline.virtual.faults import KINDS, draw_plan
from syncline.virtual.time.durations import SECOND

BROKERS = ("broker-1", "broker-2", "broker-3")


def plan(seed: int):
    """Return the plan of a seed."""
    return draw_plan(stream(seed, "faults"), BROKERS, 3 * SECOND, 20 * SECOND)


def test_plan_is_a_function_of_its_seed() -> None:
    """It can be drawn again, or left out in parts, without changing anything else."""
    assert plan(1) == plan(1)
    assert plan(1) != plan(2)


def test_plan_strikes_and_ends_within_its_time() -> None:
    """After the end nothing is broken any more."""
    for seed in range(50):
        for fault in plan(seed):
            assert 3 * SECOND <= fault.at_ns
            assert fault.at_ns + fault.duration_ns <= 20 * SECOND


def test_every_kind_of_fault_is_drawn_and_many_plans_lack_some() -> None:
    """Swarm weights: a kind that is left out gives the others room."""
    kinds = [{fault.kind for fault in plan(seed)} for seed in range(100)]

    assert set().union(*kinds) == set(KINDS)
    assert all(sum(kind in each for each in kinds) < 100 for kind in KINDS)
