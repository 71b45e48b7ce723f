"""Pictures of runs: the command that makes them again, and offsets written as the sentences beside them write them."""

from xml.etree import ElementTree as ET

import pytest

from syncline.lab import lag_table
from syncline.lab.picture import draw
from syncline.lab.run import scenario_of
from syncline.lab.stage import Outcome, Replica, Sample, Step, Story


def _story(mode: str, log_end: int = 2) -> Story:
    scenario = scenario_of("divergence")
    replica = Replica(state="running", role="leader", log_end=log_end, epochs=((0, 0),), isr=(1,))
    story = Story(scenario.name, mode, dict(scenario.lanes), [Step(1, "all begins", 0.0, 1.0)])
    story.samples.append(Sample(0.0, 1, replica))
    story.outcome = Outcome("it ended", is_expected=True)
    return story


def _words(picture: str) -> list[str]:
    return [text.strip() for text in ET.fromstring(picture).itertext()]


@pytest.mark.parametrize(
    ("modes", "command"),
    [
        pytest.param(["high-watermark"], "syncline lab run divergence --mode high-watermark", id="one mode is named"),
        pytest.param(
            ["epoch-fetch", "epoch-request", "high-watermark"], "syncline lab run divergence", id="all modes are not"
        ),
    ],
)
def test_picture_names_the_command_that_makes_it_again(modes: list[str], command: str) -> None:
    """Guards: a picture of one mode named the command that plays all of them."""
    picture = draw(scenario_of("divergence"), [_story(mode) for mode in modes])

    assert command in _words(picture)


def test_picture_of_the_lag_modes_names_the_command_that_makes_it_again() -> None:
    """The table of the lag modes can be drawn for some of them, too."""
    assert "syncline lab run lag-modes --mode time" in _words(lag_table.draw(["time"]))
    assert "syncline lab run lag-modes" in _words(lag_table.draw(list(lag_table.MODES)))


def test_picture_writes_thousands_as_texts_do() -> None:
    """Guards: the axis had 15000 and the tips 14999, where the sentences beside them have 15,000."""
    words = _words(draw(scenario_of("divergence"), [_story("epoch-fetch", log_end=15_000)]))

    assert {"7,500", "15,000", "LEO 15,000", "epoch 0: offsets 0 to 14,999"} <= set(words)
