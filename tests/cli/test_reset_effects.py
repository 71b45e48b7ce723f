"""What a reset would change, from what leaders know, and from what Kafka's API does."""

import json
from typing import Any

import pytest

from syncline.cli.lag import reset_effects
from syncline.cli.lag.reset_effects import Effect, by_brokers
from syncline.local.control import ControlError

ENDS = {
    "at_ms": 90_000,
    "log_start": 10,
    "high_watermark": 100,
    "log_end": 100,
    "end_bytes": 10_000,
    "newest_event_ms": 1,
    "readable_below_watermark": 95,
}


class _Leader:
    """A broker that leads every partition: a hundred bytes and a second per record, and a hole at 50 to 54."""

    def __init__(self, *, is_silent: bool = False, standing: str = "NONE", log_start: int = 10, **more: Any) -> None:
        self.asked: list[int] = []
        self._is_silent = is_silent
        self._standing = standing
        self._ends = {**ENDS, "log_start": log_start}
        self._more = more

    def call(self, verb: str, *, timeout_s: float, topic: str, partition: int, offsets: list[int]) -> Any:
        """Answer."""
        assert (verb, topic) == ("lag.places", "t")
        self.asked.append(partition)
        if self._is_silent:
            raise ControlError("broker 1 is paused.")
        places = [self._place(max(each, self._ends["log_start"])) for each in offsets]
        return {"standing": self._standing, "ends": self._ends, "places": places}

    def _place(self, offset: int) -> dict[str, Any] | None:
        if offset >= 100:
            return None
        place = {
            "offset": offset,
            "coordinate_bytes": 100 * offset,
            "append_ms": 1_000 * offset - 10_000,
            "event_ms": 1,
            "readable_before": offset if offset <= 50 else offset - 5,
            "kept_until_ms": None,
            "is_estimated": offset == 20,
        }
        return {**place, **self._more}


def effect(committed: int, target: int, **more: Any) -> Effect:
    """Return what the leader says of one partition."""
    known = by_brokers({1: _Leader(**more)}, {0: 1}, "t", {0: committed}, {0: target})
    assert known.unknown == []
    return known.effects[0]


@pytest.mark.parametrize(
    ("committed", "target", "expected"),
    [
        pytest.param(60, 40, (-15, -2_000, -20_000, 0, False), id="back-over-a-hole"),
        pytest.param(30, 40, (10, 1_000, 10_000, 0, False), id="forward"),
        pytest.param(30, 100, (65, 7_000, 70_000, 0, False), id="to-the-end"),
        pytest.param(100, 10, (-85, -9_000, -90_000, 0, False), id="from-the-end"),
        pytest.param(4, 12, (2, 200, 2_000, 6, False), id="from-below-the-start"),
        pytest.param(250, 90, (-10, -1_000, -10_000, 0, False), id="from-beyond-the-end"),
        pytest.param(20, 40, (20, 2_000, 20_000, 0, True), id="estimated"),
        pytest.param(40, 40, (0, 0, 0, 0, False), id="nowhere"),
        pytest.param(250, 100, (0, 0, 0, 0, False), id="back-to-the-end"),
    ],
)
def test_effect_is_the_distance_between_two_places(committed: int, target: int, expected: tuple[Any, ...]) -> None:
    """Records without holes, bytes, and time between the appends; what is gone is not read again."""
    found = effect(committed, target)

    assert (found.records, found.size_bytes, found.duration_ms, found.lost, found.is_estimated) == expected
    stands = "stays" if committed == target else "only moves"
    assert found.direction == ("skips" if expected[0] > 0 else "reads again" if expected[0] < 0 else stands)


def test_group_whose_unread_records_are_all_deleted_has_nothing_to_skip() -> None:
    """Between its offset and the end no byte is left, and no second."""
    found = effect(60, 100, log_start=100)

    assert (found.records, found.size_bytes, found.duration_ms, found.lost) == (0, 0, 0, 40)


def test_what_the_leader_does_not_know_stays_unknown() -> None:
    """Offsets stand in for records."""
    found = effect(60, 40, readable_before=None, append_ms=None)

    assert (found.records, found.size_bytes, found.duration_ms) == (-20, -2_000, None)


def test_partition_whose_leader_does_not_answer_is_named_and_asked_once() -> None:
    """Each question to a paused broker takes seconds."""
    silent = _Leader(is_silent=True)
    known = by_brokers(
        {1: silent, 2: _Leader(standing="OFFSET_NOT_AVAILABLE")},
        {0: 1, 1: 1, 2: 2, 3: -1},
        "t",
        {0: 20, 1: 20, 2: 20, 3: 20},
        {0: 30, 1: 30, 2: 30, 3: 30, 4: 30},
    )

    assert silent.asked == [0]
    assert known.unknown == [
        "t-0: the effect is unknown (broker 1 is paused.)",
        "t-1: the effect is unknown (broker 1 is paused.)",
        "t-2: the effect is unknown (OFFSET_NOT_AVAILABLE)",
        "t-3: the effect is unknown (LEADER_NOT_AVAILABLE)",
    ]
    assert {each.direction for each in known.effects} == {None}


def test_effects_are_shown_with_their_sum(capsys: pytest.CaptureFixture[str]) -> None:
    """And scripts get signs: negative amounts are read again."""
    known = by_brokers({1: _Leader()}, {0: 1, 1: 1}, "t", {0: 60, 1: 4}, {0: 40, 1: 40, 2: 40})
    reset_effects.show("t", known, "", json_fields=None)
    lines = capsys.readouterr().out.splitlines()
    reset_effects.show("t", known, "", json_fields={"group": "g"})
    fields = json.loads(capsys.readouterr().out)

    assert [line.split() for line in lines[1:4]] == [
        ["t", "0", "60", "40", "reads", "again", "15", "2,000", "20.0"],
        ["t", "1", "4", "40", "skips", "30", "3,000", "30.0", "6", "already", "lost"],
        ["t", "2", "-", "40", "-", "-", "-", "-", "nothing", "committed"],
    ]
    assert lines[4:] == [
        "the group reads again 15 records, 2,000 bytes",
        "the group skips 30 records, 3,000 bytes",
        "nothing was changed; add --execute to do it",
    ]
    assert [(each["effect"], each["records"]) for each in fields["effects"]] == [
        ("reads again", -15),
        ("skips", 30),
        (None, None),
    ]
    assert fields["group"] == "g"
