"""Bars of moves."""

import pytest

from syncline.model.ids import TopicPartition
from syncline.reassign.bars import bar, lines_of, state_of
from syncline.reassign.doctor import BrokerView, PartView
from syncline.reassign.formulas import Part, Role
from syncline.reassign.progress import Row

FOO_0 = TopicPartition("foo", 0)
UP = {1: BrokerView(is_alive=True), 5: BrokerView(is_alive=True)}


@pytest.mark.parametrize(
    ("done", "total", "drawn"),
    [(0, 100, "    "), (50, 100, "██  "), (99.9, 100, "███▉"), (100, 100, "████"), (0, 0, "████"), (200, 100, "████")],
)
def test_bar_is_full_only_when_all_is_done(done: float, total: float, drawn: str) -> None:
    """An empty partition is done from the start."""
    assert bar(done, total, 4) == drawn


@pytest.mark.parametrize(
    ("row", "state"),
    [
        (Row(FOO_0, 5, 1, 0, 10, is_in_sync=False), "waiting"),
        (Row(FOO_0, 5, 1, 4, 10, is_in_sync=False), "copying"),
        (Row(FOO_0, 5, 1, 10, 10, is_in_sync=False), "joining"),
        (Row(FOO_0, 5, 1, 10, 10, is_in_sync=True), "in sync"),
        (Row(FOO_0, 6, 1, 4, 10, is_in_sync=False), "broker 6 is down"),
        (Row(FOO_0, 5, -1, 4, 10, is_in_sync=False), "no leader"),
    ],
)
def test_state_names_who_is_waited_for(row: Row, state: str) -> None:
    """Queued, copying, joining, done, and what blocks."""
    assert state_of(row, UP) == state


@pytest.mark.parametrize(("silent", "share"), [(5, "    ? %"), (1, " 40.0 %")])
def test_broker_that_does_not_answer_is_named_and_what_it_has_is_unknown(silent: int, share: str) -> None:
    """Guards: "0.0 %" and "waiting" of a replica that had everything but the last bytes."""
    brokers = {**UP, silent: BrokerView(is_alive=True, is_silent=True)}
    (line,) = lines_of([Row(FOO_0, 5, 1, 4, 10, is_in_sync=False)], brokers, {}, {})

    assert share in line
    assert line.endswith(f"broker {silent} does not answer")


def test_what_is_left_is_unknown_while_nobody_says_what_the_whole_is() -> None:
    """Guards: a full bar, "100.0 % of 0 B" and "0 B left" of a copy whose only source was down."""
    parts = {Part(5, Role.RECEIVING): PartView(3e6, 0.0)}
    row = Row(FOO_0, 5, -1, 4, 4, is_in_sync=False, is_total_known=False)

    assert lines_of([row], UP, parts, {}) == [
        "foo-0 -> 5 |                              |     ? % of       ?  no leader",
        "broker 5 receiving          - of 3 MB/s, ? left, ends in unknown",
    ]


def test_picture_has_a_line_per_replica_and_per_broker() -> None:
    """What is left most comes first; what is too much is counted."""
    rows = [
        Row(FOO_0, 5, 1, 9_000_000, 10_000_000, is_in_sync=False),
        Row(TopicPartition("foo", 1), 5, 1, 2_500_000, 10_000_000, is_in_sync=False),
        Row(TopicPartition("foo", 2), 5, 1, 7, 7, is_in_sync=True),
    ]
    parts = {Part(5, Role.RECEIVING): PartView(3e6, 0.0, measured_bytes_per_s=2e6, remaining_bytes=8_500_000)}

    assert lines_of(rows, UP, parts, {Part(5, Role.RECEIVING): 4.25}, rows_max=2) == [
        "foo-1 -> 5 |███████▌                      |  25.0 % of   10 MB  copying",
        "foo-0 -> 5 |███████████████████████████   |  90.0 % of   10 MB  copying",
        "and 1 more replicas",
        "broker 5 receiving     2 MB/s of 3 MB/s, 8.5 MB left, ends in 4.2 s",
    ]
