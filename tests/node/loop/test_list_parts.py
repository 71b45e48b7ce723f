"""Parts: how lists are divided, and that the parts are decided one after the other."""

import weakref
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from syncline.node.loop.list_parts import (
    DROPPED_AT_ONCE,
    decide_parts,
    dropped_in_steps,
    in_independent_parts,
    in_parts,
)


class Kept:
    """An item of which can be seen whether it exists."""


class Loop:
    """Callbacks run when the test runs them."""

    def __init__(self) -> None:
        self.soon: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()

    def call_soon(self, callback: Callable[..., object], /, *args: Any) -> None:
        """Keep the callback."""
        self.soon.append((callback, args))

    def run(self) -> None:
        """Run all callbacks, and those that they add."""
        while self.soon:
            callback, args = self.soon.popleft()
            callback(*args)


def divided(items: Sequence[str], size: int, **options: Any) -> list[list[str]]:
    """Return the parts of words, whose subject is their first letter."""
    steps = in_independent_parts(items, size, subject=lambda item: item[0], **options)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return [list(part) for part in end.value]


def test_parts_have_at_most_their_size() -> None:
    """No item is lost, and a request without items has one part, which is decided as any other."""
    assert in_parts(range(5), 2) == [range(2), range(2, 4), range(4, 5)]
    assert in_parts([], 2) == [[]]


@pytest.mark.parametrize(
    ("items", "size", "parts"),
    [
        pytest.param([], 3, [[]], id="nothing"),
        pytest.param(["a1", "b", "a2", "a3"], 4, [["a1", "b", "a2", "a3"]], id="small-requests-stay-as-they-are"),
        pytest.param(["a1", "b", "c", "a2"], 3, [["a1", "a2", "b"], ["c"]], id="one-subject-in-one-part"),
        pytest.param(["a1", "a2", "a3", "a4"], 3, [["a1", "a2"]], id="two-of-many-repetitions"),
        pytest.param(["a", "b", "c", "d"], 3, [["a", "b", "c"], ["d"]], id="independent"),
    ],
)
def test_items_with_one_subject_are_decided_together(items: list[str], size: int, parts: list[list[str]]) -> None:
    """A name that stands twice in a request is refused; in two parts, the first would pass."""
    assert divided(items, size) == parts


def test_heavy_items_make_small_parts() -> None:
    """A topic of many partitions is work for many; an item heavier than a part is a part."""
    assert divided(["a", "bbbbb", "c", "d"], 2, weight=len) == [["a"], ["bbbbb"], ["c", "d"]]


def test_each_part_waits_for_the_reply_to_the_one_before() -> None:
    """And has a turn of the loop of its own; the answer comes when all have replied."""
    loop, asked, answers = Loop(), [], []

    def decide(part: Sequence[int], take: Callable[[int], None]) -> None:
        asked.append((list(part), take))

    decide_parts(loop, in_parts(range(5), 2), decide, answers.append)
    asked[0][1](10)
    before = len(asked)
    loop.run()
    asked[1][1](11)
    loop.run()
    unanswered = list(answers)
    asked[2][1](12)

    assert (before, unanswered, answers) == (1, [], [[10, 11, 12]])
    assert [part for part, _ in asked] == [[0, 1], [2, 3], [4]]


def test_reply_that_ends_it_all_is_the_last() -> None:
    """A controller that was deposed decides on no further part."""
    loop, answers = Loop(), []

    def decide(part: Sequence[int], take: Callable[[int], None]) -> None:
        take(part[0])

    decide_parts(loop, in_parts(range(6), 2), decide, answers.append, goes_on=lambda reply: reply < 2)
    loop.run()

    assert answers == [[0, 2]]


def test_list_is_emptied_some_items_at_a_time() -> None:
    """Each step frees what it drops, and no more."""
    items = [Kept() for _ in range(2 * DROPPED_AT_ONCE + 1)]
    living = [weakref.ref(item) for item in items]
    left = [sum(ref() is not None for ref in living) for _ in dropped_in_steps(items)]

    assert left == [DROPPED_AT_ONCE + 1, 1, 0]
