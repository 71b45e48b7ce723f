"""Breadth first through all states, so that the first violation ends a shortest history.

The search stores only hashes, each with the hash of the state from which it was
first reached: 100 bytes per state instead of kilobytes. It rebuilds a history by
walking the model along the hashes. If two states had the same 64-bit hash, the
search would miss one of them; among four million states the probability of that
is one in two million.
"""

import gc
from collections.abc import Callable
from typing import Final, NamedTuple

from syncline.check.bounds import Property
from syncline.check.model import Model, State, Step

REPORT_EVERY_STATES: Final = 20_000

Report = Callable[[int, int, int], None]


class Outcome(NamedTuple):
    """The result of a search."""

    violated: Property | None
    states: int
    transitions: int
    depth: int
    """Steps of the shortest history with the violation; without one, the distance of the farthest state."""
    history: tuple[Step, ...]
    is_complete: bool


def search(model: Model, *, states_max: int | None = None, report: Report | None = None) -> Outcome:
    """Return whether anything within the model's bounds breaks a property; `report` gets states, transitions, depth."""
    was_enabled = gc.isenabled()
    # Millions of tuples, none of them in a cycle: garbage collection would take longer than the search.
    gc.disable()
    try:
        return _search(model, states_max, report)
    finally:
        if was_enabled:
            gc.enable()


def _search(model: Model, states_max: int | None, report: Report | None) -> Outcome:
    first = model.initial()
    parents: dict[int, int] = {hash(first): 0}
    frontier = [first]
    depth = transitions = 0
    next_report = min(REPORT_EVERY_STATES, states_max or REPORT_EVERY_STATES)
    while frontier:
        found: list[State] = []
        for state in frontier:
            parent = hash(state)
            for step in model.steps(state):
                transitions += 1
                after = step.state
                key = hash(after)
                is_new = key not in parents
                violated = step.violated or (model.violated_in(after) if is_new else None)
                if violated is not None:
                    history = (*_history(model, parents, parent), step._replace(violated=violated))
                    return Outcome(violated, len(parents) + is_new, transitions, depth + 1, history, True)
                if is_new:
                    parents[key] = parent
                    found.append(after)
            if len(parents) >= next_report:
                next_report = len(parents) + REPORT_EVERY_STATES
                if states_max is not None:
                    next_report = min(next_report, states_max)
                if report is not None:
                    report(len(parents), transitions, depth + 1)
                if states_max is not None and len(parents) >= states_max:
                    return Outcome(None, len(parents), transitions, depth, (), False)
        frontier = found
        depth += bool(found)
    return Outcome(None, len(parents), transitions, depth, (), True)


def _history(model: Model, parents: dict[int, int], last: int) -> tuple[Step, ...]:
    """Return the steps from the beginning to the state with hash `last`."""
    keys = [last]
    while parents[keys[-1]]:
        keys.append(parents[keys[-1]])
    state = model.initial()
    history: list[Step] = []
    for key in reversed(keys[:-1]):
        step = next(each for each in model.steps(state) if hash(each.state) == key)
        history.append(step)
        state = step.state
    return tuple(history)
