"""Histories in words."""

import pytest

from syncline.check.model import Model, State
from syncline.check.search import search
from syncline.check.story import ROLES, as_data, sentence, tell
from syncline.check.table import TABLE

ROWS = {row.name: row for row in TABLE}


def test_story_of_the_loss_tells_who_lost_what() -> None:
    """The follower that restarts cuts the record that its leader has committed, and then leads."""
    model = Model(ROWS["loss"].bounds, ROWS["loss"].rules)
    lines = list(tell(model.initial(), search(model).history))

    steps = [line.split(". ", 1)[1] for line in lines if line[:3].strip().isdigit()]
    assert len(steps) == 10
    assert (
        steps[3]
        == "leader 0 handles replica 1's fetch from offset 1 and commits up to 1; it has nothing new, high watermark 0"
    )
    assert "replica 1 learns of epoch 0 and follows replica 0 and cuts m0@0 off" in steps
    assert lines[-1].startswith("S1 is violated: a leader begins its epoch without a record")
    assert lines[-1].endswith("Committed so far: m0@0.")


def test_story_shows_every_replica_after_every_step() -> None:
    """Role, epoch, high watermark and log; a star marks the replicas that changed."""
    model = Model(ROWS["divergence"].bounds, ROWS["divergence"].rules)
    history = search(model).history
    lines = list(tell(model.initial(), history))

    assert len(lines) == 3 * len(history) + 1
    assert " ".join(lines[-2].split()) == "* 1 leader epoch 1 high watermark 1 log m1@1 in sync {1} knows 0 at 1"


def test_story_as_data_has_the_same_steps() -> None:
    """For programs: what is said, and each replica."""
    model = Model(ROWS["no-fence"].bounds, ROWS["no-fence"].rules)
    rows = as_data(model.initial(), search(model).history)

    assert len(rows) == 10
    assert [each["log"] for each in rows[-1]["replicas"]] == [[[0, 0], [1, 0]], [[2, 1], [1, 0]]]
    assert rows[-1]["replicas"][0]["role"] == "leader"


@pytest.mark.parametrize("name", ROWS)
def test_every_step_has_its_words(name: str) -> None:
    """Whatever may happen within a few steps can be said."""
    model = Model(ROWS[name].bounds, ROWS[name].rules)
    frontier: list[State] = [model.initial()]
    verbs = set()
    for _ in range(7):
        found = []
        for state in frontier[:60]:
            for step in model.steps(state):
                assert sentence(state, step)
                verbs.add(step.action[0])
                found.append(step.state)
        frontier = found

    assert len(verbs) >= 4
    assert set(ROLES) == {replica[0] for state in frontier for replica in state.replicas} | set(ROLES)
