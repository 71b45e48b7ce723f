"""Nothing that a client calls itself controls the terminal of the person who looks at it."""

import json
import re
from typing import Any

import pytest

from syncline.cli import cache, groups, screen
from syncline.cli.lag import kafka_api as lag_kafka
from syncline.cli.lag import reset_effects
from syncline.model.shown_names import LENGTH_MAX, columns_of, printable, shown_name
from tests.cli.kafka_admin import KafkaAdmin, member
from tests.cli.terminal import call, refusal
from tests.cli.test_lag import cells, group_answer, reader, row
from tests.cluster import ROOT
from tests.lag_report.readings import GB, TAIL, answer
from tests.lag_report.readings import reader as cache_reader

# Clears the screen, renames the window, begins a line of its own, and reverses what follows.
EVIL = "\x1b[2J\x1b]0;pwned\x07\r\nroot\u202e"
HARMLESS = r"\x1b[2J\x1b]0;pwned\x07\r\nroot\u202e"
LONG = f"orders-{'x' * 10_000}-thread-7"


def test_what_a_terminal_would_obey_is_an_escape() -> None:
    """Control characters, marks of direction, separators of lines, halves of characters; letters stay letters."""
    assert printable(EVIL) == HARMLESS
    assert printable("\u2028\x85\x7f\udcff\u200b") == r"\u2028\x85\x7f\udcff\u200b"
    assert printable("Überraschung 注文 ✈️ é") == "Überraschung 注文 ✈️ é"


def test_long_name_is_shown_with_its_beginning_and_its_end() -> None:
    """Names of one application differ at the end; escapes count by their length."""
    shown = shown_name(LONG)

    assert (len(shown), shown[:8], shown[-9:]) == (LENGTH_MAX, "orders-x", "-thread-7")
    assert "…" in shown
    assert shown_name("x" * LENGTH_MAX) == "x" * LENGTH_MAX
    assert len(shown_name("\x1b" * 40)) == LENGTH_MAX


def test_columns_stand_below_each_other_whatever_is_in_them(capsys: pytest.CaptureFixture[str]) -> None:
    """Guards: letters of two columns, accents of none and escapes moved the rest of their row."""
    screen.print_table(["NAME", "N"], [["注文", 1], ["e\u0301", 2], [EVIL, 3]])

    header, *lines = capsys.readouterr().out.splitlines()
    assert [columns_of(line[: re.search(r"\d$", line).start()]) for line in lines] == [header.rindex("N")] * 3  # type: ignore[union-attr]


def test_screen_is_cleared_on_a_terminal_only(capsys: pytest.CaptureFixture[str]) -> None:
    """Guards: `--watch` into a file or a pipe wrote escape sequences."""
    screen.begin_again()

    assert re.fullmatch(r"\d\d:\d\d:\d\d\n", capsys.readouterr().out)


@pytest.fixture
def evil_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster with a group, a client, a host and a broker's message that would control a terminal."""
    stuck = {"fetched_ago_ms": 60_000, "unread": 5, "client_id": EVIL, "host": EVIL, "partitions": 1}
    group = group_answer(
        row(0, 10, 15, client_id=EVIL, host=EVIL, member=EVIL),
        group=EVIL,
        findings=[{"cause": "stuck-poll", "evidence": stuck, "partition": ["t", 0]}],
        unanswered=[{"topic": "t", "partition": 1, "error": EVIL}],
    )
    summary = {name: value for name, value in group.items() if name not in ("rows", "findings", "unanswered")}
    more = {"partitions": 1, "without_commit": 0, "missing": 0, "lost": 0, "lag_bytes": 1, "staleness_ms": 1}
    more |= {"loses_data": False, "worst": "t-0", "lag_records": 5, "lags": {"hw": 5, "lso": 5, "leo": 5}}
    told = {
        "lag.group": group,
        "lag.groups": {"groups": [{**summary, **more}], "next": None},
        "lag.readers": {"readers": [reader(0, EVIL, host=EVIL)], "members": [], "next": None},
        "cache.show": answer(readers=[cache_reader(EVIL, [[TAIL, 1, GB]])]),
    }

    class _Broker:
        def call(self, verb: str, **_: Any) -> Any:
            return told[verb]

    admin = KafkaAdmin({"t": [1]}, {EVIL: {("t", 0): 4}}, members={EVIL: [member(EVIL, ("t", 0))]})
    for module in (groups, lag_kafka):
        monkeypatch.setattr(module, "admin_client", lambda _: admin)
        monkeypatch.setattr(module, "list_groups", lambda _: admin.listed())
    for module in (lag_kafka, reset_effects):
        monkeypatch.setattr(module, "times_at_commits", lambda *_: {})
    monkeypatch.setattr("syncline.local.control.controls", lambda _: {1: _Broker()})


@pytest.mark.usefixtures("evil_cluster")
@pytest.mark.parametrize(
    "arguments",
    [
        ("lag",),
        ("lag", EVIL),
        ("lag", "explain", EVIL),
        ("lag", "--readers"),
        ("lag", "-b", "h:1"),
        ("lag", EVIL, "-b", "h:1"),
        ("cache",),
        ("groups", "list", "-b", "h:1"),
        ("groups", "describe", EVIL, "-b", "h:1"),
        ("groups", "reset-offsets", EVIL, "-t", "t", "--to", "3", "-b", "h:1"),
    ],
    ids=lambda arguments: " ".join(arguments).replace(EVIL, "NAME"),
)
def test_no_command_prints_a_name_that_controls_the_terminal(arguments: tuple[str, ...]) -> None:
    """Guards: client ids, groups and hosts went to the terminal as they came. JSON has them unchanged."""
    shown = call(*arguments)

    assert all(line.isprintable() for line in shown.split("\n"))
    assert not any(line.startswith("root") for line in shown.split("\n"))
    assert "pwned" in shown
    assert json.dumps(EVIL)[1:-1] in call(*arguments, "--json")


@pytest.mark.usefixtures("evil_cluster")
def test_names_of_any_length_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards: a client id of 10,000 characters was a line of 10,000 characters. JSON has all of it."""
    told = {"lag.group": group_answer(row(0, 10, 15, client_id=LONG), group=LONG)}

    class _Broker:
        def call(self, verb: str, **_: Any) -> Any:
            return told[verb]

    monkeypatch.setattr("syncline.local.control.controls", lambda _: {1: _Broker()})

    first, header, line, *_ = call("lag", LONG).splitlines()
    assert first == f"group {shown_name(LONG)}: OK, stable, 2 members"
    assert cells(header, line, "MEMBER") == [shown_name(LONG)]
    assert max(map(len, call("lag", "explain", LONG).splitlines())) < 300
    assert LONG in call("lag", LONG, "--json")


def test_error_about_a_long_name_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards: `there is no group` repeated whatever was typed."""
    monkeypatch.setattr(groups, "admin_client", lambda _: KafkaAdmin({}, {}))

    assert len(refusal("groups", "describe", LONG, "-b", "h:1")) < 200


def test_cache_shows_long_readers_in_a_table_that_can_be_read(capsys: pytest.CaptureFixture[str]) -> None:
    """The beginning of the client and its host; scripts get the whole name."""
    given = {1: answer(readers=[cache_reader(LONG, [[TAIL, 1, GB]])])}
    cache.show(given, {}, None, None, cluster="d", as_json=False)
    shown = capsys.readouterr().out
    cache.show(given, {}, None, None, cluster="d", as_json=True)

    assert shown_name(f"client {LONG} at 10.0.0.7") in shown
    assert LONG not in shown
    assert LONG in capsys.readouterr().out


NAMING = (
    "lag/command",
    "lag/readers",
    "groups",
    "lag/reset_effects",
    "cache",
    "topics",
    "why",
    "isr",
    "reassign/throttle",
)


@pytest.mark.parametrize("module", NAMING)
def test_commands_that_show_names_print_nothing_but_json_by_themselves(module: str) -> None:
    """What a person reads goes through `screen.say`, so that a new sentence is safe as well."""
    source = (ROOT / "src/syncline/cli" / f"{module}.py").read_text()

    assert [line for line in source.splitlines() if re.search(r"\bprint\(", line) and "json" not in line] == []
