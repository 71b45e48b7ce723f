"""`syncline isr`: whose each note is, and when partitions may be missing."""

import warnings
from typing import Any

import pytest

with warnings.catch_warnings():
    # typer uses what click is about to drop.
    warnings.simplefilter("ignore", DeprecationWarning)
    from syncline.cli import isr as command


def row(partition: int = 0, **values: Any) -> dict[str, Any]:
    """Return what a leader, broker 1, reports of a partition with one follower."""
    follower = {
        "broker": 2,
        "in_isr": True,
        "log_end": 5,
        "lag_records": 0,
        "lag_bytes": 0,
        "lag_ms": None,
        "left_ms": None,
        "is_protected": False,
    }
    common: dict[str, Any] = {
        "topic": "orders",
        "partition": partition,
        "leader": 1,
        "leader_epoch": 3,
        "isr": [1, 2],
        "log_end": 5,
        "high_watermark": 5,
        "is_change_pending": False,
        "is_under_min_isr": False,
        "followers": [follower | values.pop("follower", {})],
    }
    return common | values


def shown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], place: str | None, **found: Any) -> str:
    """Return what the command prints if brokers answer this."""
    monkeypatch.setattr("syncline.local.control.controls", lambda _: {1: None, 2: None})
    monkeypatch.setattr(command, "ask", lambda *_: {"silent": {}, "partition_count": 0, **found})
    command.isr(place)
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("values", "note"),
    [
        ({"follower": {"in_isr": False}, "adding": [2]}, "being added, not in ISR"),
        (
            {"follower": {"in_isr": False}, "adding": [2], "removing": [1]},
            "follower: being added, not in ISR; leader: being removed",
        ),
        ({"trouble": "no-room", "removing": [1]}, "leader: disk full, being removed"),
        ({"is_under_min_isr": True, "follower": {"in_isr": False}}, "follower: not in ISR; under min ISR"),
        ({"is_under_min_isr": True, "followers": []}, "under min ISR"),
    ],
)
def test_note_says_whose_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], values: dict[str, Any], note: str
) -> None:
    """The leader's and the follower's stand in one cell."""
    line = shown(monkeypatch, capsys, "orders", partitions=[row(**values)]).splitlines()[1]

    assert line.endswith(f"  {note}")


def test_lag_of_a_follower_that_its_leader_has_not_heard_of_is_unknown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Guards: after an election a paused follower that had everything was said to lack all records."""
    unheard = {"log_end": -1, "lag_records": 5, "lag_bytes": 400, "in_isr": False}
    line = shown(monkeypatch, capsys, "orders", partitions=[row(follower=unheard)]).splitlines()[1]

    assert line.split()[6:11] == ["2", "-", "-", "-", "-"]
    assert line.endswith("  not in ISR, has not fetched from this leader")


@pytest.mark.parametrize(
    ("place", "partitions", "count", "is_told"),
    [
        ("orders", (0, 1), 2, False),
        ("orders", (1,), 2, True),
        ("orders:1", (1,), 2, False),
        ("orders:0", (), 2, True),
        (None, (0, 1), 0, True),
    ],
)
def test_silent_broker_is_said_to_hide_partitions_only_if_some_are_missing(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    place: str | None,
    partitions: tuple[int, ...],
    count: int,
    is_told: bool,
) -> None:
    """Of one topic it is known how many there are; of all topics it is not."""
    rows = [row(each) for each in partitions]

    told = shown(monkeypatch, capsys, place, partitions=rows, silent={2: "broker 2 is down."}, partition_count=count)

    assert "broker 2 is down." in told
    assert ("are missing" in told) is is_told
