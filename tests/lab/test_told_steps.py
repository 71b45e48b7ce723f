"""Steps as lines for a terminal: what a reader compares stands in columns, and on the clock of the picture."""

from syncline.lab.picture import _axis
from syncline.lab.run import as_json
from syncline.lab.stage import Mark, Replica, Step, Story, lines_of

LANES = {1: "L", 2: "F"}


def _replica(log_end: int, high_watermark: int) -> Replica:
    return Replica(state="running", role="follower", log_end=log_end, high_watermark=high_watermark)


def test_offsets_of_a_step_stand_in_columns_when_one_has_many_digits() -> None:
    """Guards: at 15,000 records the marks and epochs of the replicas no longer stood below each other."""
    step = Step(1, "a burst", 0.0, 1.0, {1: _replica(15_000, 10_000), 2: _replica(5_000, 0)})

    _, leader, follower = lines_of(step, LANES, first_s=0.0)

    assert leader.index("HW") == follower.index("HW")
    assert leader.index("epochs") == follower.index("epochs")
    assert "LEO 15,000 HW 10,000 epochs" in leader


def test_seconds_count_from_the_first_step_in_text_picture_and_json() -> None:
    """Guards: the terminal counted the start of the brokers, too, and said 1.91 s where the picture had 0.62 s."""
    step = Step(1, "all begins", 1.29, 1.91)
    story = Story("zombie-leader", "epoch-fencing", LANES, [step], marks=[Mark(1.5, 1, "paused")])
    axis, fields = _axis(story), as_json(story)

    assert next(lines_of(step, LANES, first_s=story.first_s)).endswith("[0.62 s]")
    assert round(axis.edges_s[1] - axis.edges_s[0], 2) == 0.62
    assert fields["steps"][0]["at_s"] == 0.62
    assert fields["marks"][0]["at_s"] == 0.21
