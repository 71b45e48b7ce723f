"""`check`: verdicts, histories, and bounds that make no sense."""

import json

import pytest

from tests.cli.terminal import as_json, refusal, run, succeed


def test_check_says_that_the_default_is_clean() -> None:
    """Nobody has to know an option to see that what runs by default holds."""
    shown = succeed("check")

    assert shown.startswith("Clean: nothing within these bounds breaks anything")


def test_check_tells_the_shortest_history_and_ends_with_one() -> None:
    """The article's data loss, step by step; scripts see it by the exit code."""
    ran = run("check", "--truncation", "high-watermark", "--no-transfers")

    assert ran.returncode == 1
    assert ran.stderr == ""
    lines = ran.stdout.splitlines()
    assert lines[0] == "  1. replica 0 appends m0@0 from a producer"
    assert lines[-2].startswith("S1 is violated")
    assert lines[-1].startswith("No history shorter than these 10 steps breaks anything")


def test_check_gives_the_history_to_programs() -> None:
    """Verdict and steps as JSON."""
    ran = run("check", "--truncation", "high-watermark", "--property", "s6", "--json")
    told = json.loads(ran.stdout)

    assert (told["violated"], told["depth"], len(told["history"])) == ("S6", 12, 12)
    assert told["history"][0]["action"] == "produce"
    assert told["complete"]


def test_check_says_when_it_gave_up() -> None:
    """A verdict that covers less than the bounds is not called clean."""
    told = as_json("check", "--records", "9", "--epochs", "5", "--states-max", "2000")

    assert told["violated"] is None
    assert not told["complete"]
    assert 2_000 <= told["states"] < 3_000


def test_table_runs_every_check() -> None:
    """One line each, all as documented."""
    rows = as_json("check", "--table")

    assert len(rows) == 9
    assert all(row["as_documented"] for row in rows)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--replicas", "1"), "--replicas takes 2 to 5, not 1."),
        (("--replicas", "6"), "--replicas takes 2 to 5, not 6."),
        (("--records", "-1"), "--records takes 0 to 9, not -1."),
        (("--epochs", "0"), "--epochs takes 1 to 9, not 0."),
        (("--crashes", "10"), "--crashes takes 0 to 9, not 10."),
        (("--min-isr", "3"), "--min-isr takes 1 to 2, not 3."),
        (("--states-max", "0"), "--states-max takes at least 1, not 0."),
        (("--truncation", "luck"), "--truncation takes one of high-watermark, one-round, epoch-request, epoch-fetch"),
        (("--property", "S9"), "--property takes S1, S2, S3, S6, not 'S9'."),
        (("--large",), "--large adds rows to --table: give both."),
        (("--table", "--replicas", "3", "--no-fence"), "--table has its own bounds and rules, and does not take --re"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_check_refuses_bounds_in_a_sentence(arguments: tuple[str, ...], sentence: str) -> None:
    """It says which option, and what it takes."""
    assert sentence in refusal("check", *arguments)
