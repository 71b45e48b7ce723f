"""`check`: verdicts, histories, and invalid bounds."""

import json

import pytest

from tests.cli.terminal import as_json, refusal, run, succeed


def test_check_says_that_the_default_is_clean() -> None:
    """Without options, the command checks the default rules and finds them clean."""
    shown = succeed("check")

    assert shown.startswith("Clean: no history within these bounds breaks a property")


def test_check_tells_the_shortest_history_and_ends_with_one() -> None:
    """The data loss of KIP-101, step by step; the exit code tells scripts."""
    ran = run("check", "--truncation", "high-watermark", "--no-transfers")

    assert ran.returncode == 1
    assert ran.stderr == ""
    lines = ran.stdout.splitlines()
    assert lines[0] == "  1. replica 0 appends m0@0 from a producer"
    assert lines[-2].startswith("S1 is violated")
    assert lines[-1].startswith("No history shorter than these 10 steps breaks a property")


def test_check_gives_the_history_to_programs() -> None:
    """Verdict and steps as JSON."""
    ran = run("check", "--truncation", "high-watermark", "--property", "s6", "--json")
    result = json.loads(ran.stdout)

    assert (result["violated"], result["depth"], len(result["history"])) == ("S6", 12, 12)
    assert result["history"][0]["action"] == "produce"
    assert result["complete"]


def test_check_says_when_it_gave_up() -> None:
    """A search that stops early reports no clean verdict."""
    result = as_json("check", "--records", "9", "--epochs", "5", "--states-max", "2000")

    assert result["violated"] is None
    assert not result["complete"]
    assert 2_000 <= result["states"] < 3_000


def test_table_runs_every_check() -> None:
    """One line per check, each with the documented result; it computes for nine seconds if it is alone."""
    rows = as_json("check", "--table", within_s=120)

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
        (("--table", "--replicas", "3", "--no-fence"), "--table has its own bounds and rules: leave out --re"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_check_refuses_bounds_in_a_sentence(arguments: tuple[str, ...], sentence: str) -> None:
    """The message names the option and its values."""
    assert sentence in refusal("check", *arguments)
