"""The documented checks: each safeguard holds the protocol together, and without it the known history is found."""

from itertools import pairwise
from pathlib import Path

import pytest

from syncline.check.bounds import Bounds, Property, Rules, Truncation
from syncline.check.model import Model
from syncline.check.search import search
from syncline.check.table import LARGE_TABLE, TABLE, Row

ROOT = Path(__file__).parent.parent.parent
MODEL_LINES_MAX = 400


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
def test_table_row_ends_as_documented(row: Row) -> None:
    """The verdict and the length of the shortest history are those of the table."""
    outcome = search(Model(row.bounds, row.rules))

    assert (outcome.violated, outcome.depth) == (row.violated, row.depth)
    assert outcome.is_complete


@pytest.mark.parametrize("row", [row for row in TABLE if row.violated], ids=lambda row: row.name)
def test_history_can_be_walked_step_by_step(row: Row) -> None:
    """What is shown is a way through the model, and only its last step violates anything."""
    model = Model(row.bounds, row.rules)
    history = search(model).history

    assert len(history) == row.depth
    state = model.initial()
    for step in history:
        assert step.state in [each.state for each in model.steps(state)]
        state = step.state
    assert [step.violated for step in history[:-1]] == [None] * (row.depth - 1)
    assert history[-1].violated is row.violated


@pytest.mark.parametrize(
    ("bounds", "rules", "violated", "depth"),
    [
        pytest.param(
            Bounds(),
            Rules(Truncation.HIGH_WATERMARK),
            Property.LEADER_COMPLETENESS,
            9,
            id="loss is sooner by a transfer",
        ),
        pytest.param(
            Bounds(),
            Rules(Truncation.HIGH_WATERMARK, properties=frozenset({Property.ACCEPTED_FETCH})),
            Property.ACCEPTED_FETCH,
            12,
            id="so is divergence",
        ),
        pytest.param(
            Bounds(crashes=0, power_cuts=1), Rules(), Property.LEADER_COMPLETENESS, 5, id="last replica standing (M25)"
        ),
        pytest.param(Bounds(), Rules(fence=False), None, 20, id="epoch-fetch needs no fence within these bounds"),
        pytest.param(
            Bounds(2, 3, 3, 2),
            Rules(Truncation.EPOCH_REQUEST, fence=False),
            Property.ACCEPTED_FETCH,
            9,
            id="without a fence logs are counted as equal before they differ in data",
        ),
    ],
)
def test_variants_end_as_described(bounds: Bounds, rules: Rules, violated: Property | None, depth: int) -> None:
    """What docs/model-check.md says beside its table."""
    outcome = search(Model(bounds, rules))

    assert (violated, depth) == (outcome.violated, outcome.depth)


def test_search_gives_up_at_its_limit() -> None:
    """A space that is too large ends without a verdict, and says so."""
    outcome = search(Model(Bounds(3, 3, 3, 3), Rules()), states_max=20_000)

    assert not outcome.is_complete
    assert outcome.violated is None
    assert outcome.states >= 20_000


def test_search_reports_progress() -> None:
    """States, transitions and depth only grow."""
    reports: list[tuple[int, int, int]] = []
    search(Model(Bounds(2, 3, 3, 2), Rules()), states_max=80_000, report=lambda *numbers: reports.append(numbers))

    assert len(reports) >= 3
    assert all(max(before) < max(after) and before[2] <= after[2] for before, after in pairwise(reports))


def test_actions_of_a_state_are_always_in_the_same_order() -> None:
    """So a shortest history is the same in every run, and two looks at one state agree."""
    model = Model(Bounds(), Rules())
    state = model.initial()
    for _ in range(12):
        steps = model.steps(state)
        assert steps == model.steps(state)
        state = steps[-1].state


def test_model_stays_small_enough_to_read() -> None:
    """It is a text about the protocol; what does not fit deserves a model of its own."""
    lines = (ROOT / "src/syncline/check/model.py").read_text().splitlines()

    assert len(lines) <= MODEL_LINES_MAX


def test_page_shows_the_table_as_it_is() -> None:
    """Every row stands in docs/model-check.md with its verdict and depth."""
    page = (ROOT / "docs" / "model-check.md").read_text()
    missing = []
    for row in TABLE + LARGE_TABLE:
        bounds = row.bounds
        begin = f"| `{row.name}` | {bounds.replicas}, {bounds.records}, {bounds.epochs}, {bounds.crashes} |"
        lines = [line for line in page.splitlines() if line.startswith(begin)]
        verdict = f"| {row.violated.value if row.violated else 'clean'} | {row.depth} |"
        if len(lines) != 1 or verdict not in lines[0]:
            missing.append(f"{begin} ... {verdict}")

    assert missing == []
