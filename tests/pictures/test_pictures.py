"""What pictures are made of: labels that fit, axes with round numbers, legends inside the frame, readable text."""

import re
from xml.etree import ElementTree as ET

import pytest

from syncline.lab.style import EPOCH_COLOURS
from syncline.pictures import labels, legend, scales, svg
from syncline.pictures.axis import StepAxis, TimeAxis
from syncline.pictures.palette import ROLES, sheet
from syncline.pipeline.report.style import CELL_TEXT, OWN

CONTRAST_MIN = 4.5


@pytest.mark.parametrize(
    ("number", "written"),
    [(0, "0"), (950, "950"), (1_000, "1k"), (1_240, "1.2k"), (34_400, "34k"), (2_500_000, "2.5M")],
)
def test_short_numbers_fit_a_cell(number: float, written: str) -> None:
    """At most four characters."""
    assert labels.short(number) == written


@pytest.mark.parametrize(("ms", "written"), [(340, "340 ms"), (3_440, "3.4 s"), (125_000, "2 min 5 s")])
def test_durations_have_a_unit_that_suits_them(ms: int, written: str) -> None:
    """No reader counts the zeros of milliseconds."""
    assert labels.seconds(ms) == written


def test_wrapped_text_keeps_every_word() -> None:
    """A word longer than the line stays whole."""
    assert labels.wrapped("a follower that never reaches the end", 12) == [
        "a follower",
        "that never",
        "reaches the",
        "end",
    ]
    assert labels.wrapped("relinquished", 5) == ["relinquished"]


def test_label_that_would_touch_its_neighbour_moves_to_the_second_row() -> None:
    """The first row is free again behind the label that took it."""
    rows = labels.Rows()

    assert [rows.row(x, 50.0) for x in (0.0, 30.0, 60.0)] == [0, 1, 0]


def test_ticks_reach_the_highest_value() -> None:
    """The axis ends at or above the data, on a round number."""
    assert scales.nice_ticks(12.9, 5) == [0.0, 5.0, 10.0, 15.0]
    assert scales.time_ticks_ms(95_000, 12) == list(range(0, 95_001, 10_000))


def test_time_axis_keeps_instants_inside_its_frame() -> None:
    """An instant before the journal's first event lands on the left edge."""
    axis = TimeAxis(1_000, 11_000, 100.0, 200.0)

    assert [axis.x(at) for at in (0, 1_000, 6_000, 11_000, 12_000)] == [100.0, 100.0, 150.0, 200.0, 200.0]


def test_step_axis_gives_each_step_room_and_longer_steps_more() -> None:
    """A step of a millisecond beside one of ten seconds is still wide enough; moments keep their order."""
    axis = StepAxis([0.0, 0.001, 10.0, 11.0], 0.0, 1000.0, step_px_min=90.0)
    widths = [end - start for start, end in zip(axis.places, axis.places[1:], strict=False)]

    assert min(widths) >= 90.0
    assert widths[1] > widths[2] > widths[0]
    assert axis.places[-1] == pytest.approx(1000.0)
    moments = [0.0, 0.0005, 0.001, 4.0, 10.0, 10.5, 11.0, 99.0]
    places = [axis.x(at) for at in moments]
    assert places == sorted(places)
    assert places[-1] == axis.places[-1]


def test_legend_begins_another_row_when_it_reaches_the_right_edge() -> None:
    """Every entry is shown, none beyond the edge."""
    entries = [legend.box(f"entry {number}", "in-sync") for number in range(10)]
    root = ET.fromstring(svg.drawing(400, 200, "a legend", *legend.row(entries, 24, 40, right=400)))

    boxes = [(float(box.attrib["x"]), float(box.attrib["y"])) for box in root.iter("{http://www.w3.org/2000/svg}rect")]
    assert [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")] == [entry.name for entry in entries]
    assert max(x for x, _ in boxes) + 34 <= 400
    assert len({y for _, y in boxes}) > 1
    assert len(set(boxes)) == len(boxes)


TEXTS = [
    *(pytest.param(ROLES[role], ROLES["card"], id=role) for role in ("ink", "muted", "good", "bad", "fault")),
    pytest.param(ROLES["card"], ROLES["lead"], id="on the leader's bar"),
    pytest.param(ROLES["ink"], ROLES["void"], id="on a lane"),
    *(pytest.param(ROLES["ink"], colours, id=f"on epoch {n}") for n, colours in enumerate(EPOCH_COLOURS)),
    *(pytest.param(text, OWN[name[0] + name[-1]], id=f"on {name}") for names, *text in CELL_TEXT for name in names),
]


@pytest.mark.parametrize("ground", [pytest.param(0, id="light"), pytest.param(1, id="dark")])
@pytest.mark.parametrize(("text", "under"), TEXTS)
def test_text_stands_out_from_its_ground(text: tuple[str, str], under: tuple[str, str], ground: int) -> None:
    """At least 4.5 to 1, the contrast that WCAG asks of small text."""
    assert contrast(text[ground], under[ground]) >= CONTRAST_MIN


def test_style_sheet_defines_every_colour_that_it_uses() -> None:
    """A role that is renamed in one place leaves no shape without colour."""
    text = sheet({"own": ("#000", "#fff")}, ".x{fill:var(--own)}")

    assert set(re.findall(r"var\(--([a-z-]+)\)", text)) <= set(re.findall(r"--([a-z-]+):", text))


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours as WCAG 2 defines it."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def luminance(colour: str) -> float:
    """Return the relative luminance of `#rrggbb`."""
    shares = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [share / 12.92 if share <= 0.03928 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
