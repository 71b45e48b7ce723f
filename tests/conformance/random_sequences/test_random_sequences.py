"""Random sequences: the same for a seed, sendable in every version, and shortened to what matters."""

from random import Random

import pytest

from tests.conformance.batches import Batch, encode
from tests.conformance.compare import Difference
from tests.conformance.group_requests import heartbeat, join
from tests.conformance.kio_tree import encode_request
from tests.conformance.player import describe_step
from tests.conformance.random_sequences.catalogue import KINDS, generated
from tests.conformance.random_sequences.expected import unexpected
from tests.conformance.random_sequences.record_batches import EVEN_BYTES, Producing, is_odd
from tests.conformance.random_sequences.shrinking import shrunk
from tests.conformance.requests import list_offsets
from tests.conformance.steps import Action, Departure, Pause, Receive, Sequence, Step, coordinator
from tests.conformance.values import Scope

SEEDS = range(40)
SOME_ID = "44444444-4444-4444-4444-444444444444"
SOME_ANSWERS = {"member_id": "nobody", "topics.0.topic_id": SOME_ID}


def _sequence(*actions: Action) -> Sequence:
    return Sequence("random_x.s1", "some steps", {}, actions)


@pytest.mark.parametrize("kind", list(KINDS))
def test_seed_draws_the_same_sequence_again(kind: str) -> None:
    """A seed is all that a failure needs to be repeated; other seeds draw other sequences."""
    assert generated(kind, 3) == generated(kind, 3)
    assert generated(kind, 3).actions != generated(kind, 4).actions


@pytest.mark.parametrize("kind", list(KINDS))
def test_every_drawn_request_can_be_sent(kind: str) -> None:
    """Each body fits the version that was drawn for it, and can be written into a report."""
    scope = Scope("c-x-", [0, 1, 2], lambda _: SOME_ID)
    for seed in SEEDS:
        for action in generated(kind, seed).actions:
            if not isinstance(action, Pause | Departure):
                scope.saved |= {name: SOME_ANSWERS.get(path, 0) for name, path in action.save.items()}
            if isinstance(action, Step):
                assert describe_step(action)
                assert encode_request(action.key, action.version, scope.resolve(action.body)) is not None


def test_even_batches_have_one_size() -> None:
    """What a limit leaves over never holds a whole batch of another partition."""
    producing = Producing(Random(1), even=True)
    drawn = [producing.records("t", 0) for _ in range(300)]

    assert {len(encode(each)) for each in drawn if isinstance(each, Batch) and not is_odd(each)} == {EVEN_BYTES}


def test_shrinking_keeps_the_steps_and_rows_that_fail() -> None:
    """Nine steps of which one row of one matters become that row."""
    wanted = list_offsets(9, {"t": {0: -1, 1: -2}, "u": {0: -1}})
    others = [list_offsets(9, {"t": {0: -3}})] * 4

    def fails(candidate: Sequence) -> bool:
        return "-2" in repr([each.body for each in candidate.actions if isinstance(each, Step)])

    [left] = shrunk(_sequence(*others, wanted, *others), fails, tries=200).actions

    assert isinstance(left, Step)
    assert len(left.body["topics"]) == len(left.body["topics"][0]["partitions"]) == 1


def test_shrinking_keeps_what_restores_the_brokers() -> None:
    """Unrecorded steps at the end undo the others for the next sequence."""
    asked, restoring = list_offsets(9, {"t": {0: -1}}), list_offsets(9, {"t": {0: -2}}, quiet=True)

    short = shrunk(_sequence(asked, asked, restoring, Pause(1)), lambda _: True, tries=50)

    assert short.actions[1:] == (restoring, Pause(1))


def test_shrinking_receives_nothing_that_was_not_sent() -> None:
    """An answer that is taken later goes with its request."""
    held = join(5, hold=True, connection="two")
    taken = Receive(to=coordinator("g"), connection="two")
    beat = heartbeat(3, member="m", generation=1)

    short = shrunk(_sequence(held, beat, taken), lambda each: beat in each.actions, tries=50)

    assert short.actions == (beat,)


@pytest.mark.parametrize(
    ("found", "left"),
    [
        pytest.param(("reply.a", 1, 2), 1, id="a difference"),
        pytest.param(("reply", "silent", {"error_code": 27}), 0, id="a superseded join"),
        pytest.param(("reply", "silent", {"error_code": 25}), 1, id="another answer where Kafka has none"),
        pytest.param(("reply", "silent", {"error_code": 25, "assignment": ""}), 0, id="a sync of a member that left"),
        pytest.param(("reply.error_code", -1, 25), 0, id="a failure of Kafka"),
        pytest.param(
            ("reply.groups.0.group_state", "Dead", "PreparingRebalance"), 0, id="a group that is not shown yet"
        ),
        pytest.param(("reply.a.error_message", "Invalid [0:0, ]", "Invalid [0:0]"), 0, id="a value without blanks"),
    ],
)
def test_expected_differences_are_the_listed_ones(found: tuple[str, object, object], left: int) -> None:
    """What docs/divergences.md explains is set aside, and nothing else."""
    assert len(unexpected([Difference("random_groups.s1", 0, *found)])) == left


def test_nothing_is_compared_behind_an_answer_that_later_ones_rest_on() -> None:
    """Ids and generations that were saved from it differ, and so may everything after it."""
    first = Difference("random_groups.s1", 1, "reply", "silent", {"error_code": 27})
    before, after = (Difference("random_groups.s1", step, "reply.a", 1, 2) for step in (0, 2))

    assert unexpected([before, first, after]) == [before]
