"""Making a failing sequence short: leave out steps, then rows of requests, as long as it still fails."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from tests.conformance.steps import Action, Pause, Receive, Sequence, Step, Target

Fails = Callable[[Sequence], bool]


def shrunk(sequence: Sequence, fails: Fails, tries: int) -> Sequence:
    """Return a shorter sequence that fails, too, after at most `tries` tries.

    What is not recorded at its end stays: it restores what all sequences share.
    """
    left = [tries]
    end = _end_of_recorded(sequence.actions)
    rest = sequence.actions[end:]
    sequence = replace(sequence, actions=sequence.actions[:end])

    def still_fails(candidate: Sequence) -> bool:
        left[0] -= 1
        return fails(replace(candidate, actions=candidate.actions + rest))

    for shorter in (_with_fewer_steps, _with_fewer_rows):
        progress = True
        while progress and left[0] > 0:
            progress = False
            for candidate in shorter(sequence):
                if left[0] <= 0:
                    break
                if still_fails(candidate):
                    sequence, progress = candidate, True
                    break
    return replace(sequence, actions=sequence.actions + rest)


def _end_of_recorded(actions: tuple[Action, ...]) -> int:
    end = len(actions)
    while end and (isinstance(last := actions[end - 1], Pause) or (isinstance(last, Step) and last.quiet)):
        end -= 1
    return end


def _with_fewer_steps(sequence: Sequence) -> Iterator[Sequence]:
    """Large pieces first; of equal ones the last, since a failure is seldom before what causes it."""
    actions = sequence.actions
    size = len(actions) // 2
    while size:
        for start in range(len(actions) - size, -1, -size):
            yield replace(sequence, actions=_received(actions[:start] + actions[start + size :]))
        size //= 2


def _received(actions: tuple[Action, ...]) -> tuple[Action, ...]:
    """Return the actions without those that receive what was never sent."""
    held: Counter[tuple[str, Target]] = Counter()
    kept: list[Action] = []
    for action in actions:
        if isinstance(action, Step) and action.hold:
            held[action.connection, action.to] += 1
        if isinstance(action, Receive):
            if not held[action.connection, action.to]:
                continue
            held[action.connection, action.to] -= 1
        kept.append(action)
    return tuple(kept)


def _with_fewer_rows(sequence: Sequence) -> Iterator[Sequence]:
    for place, action in enumerate(sequence.actions):
        for candidate in _requests_with_fewer_rows(action):
            yield replace(sequence, actions=(*sequence.actions[:place], candidate, *sequence.actions[place + 1 :]))


def _requests_with_fewer_rows(action: Action) -> Iterator[Action]:
    if isinstance(action, Step):
        for body in _with_one_item_less(action.body):
            yield replace(action, body=body)


def _with_one_item_less(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for name, each in value.items():
            for less in _with_one_item_less(each):
                yield {**value, name: less}
    elif isinstance(value, list):
        for place, each in enumerate(value):
            yield [*value[:place], *value[place + 1 :]]
            for less in _with_one_item_less(each):
                yield [*value[:place], less, *value[place + 1 :]]
