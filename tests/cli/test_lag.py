"""`lag`: groups and partitions as brokers measure them, as a table, as JSON, and in words."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from syncline.local.control import ControlError
from tests.cli.terminal import as_json, call, refusal, succeed

Answers = Mapping[str, Any]


class _Broker:
    """A broker whose control API gives prepared answers."""

    def __init__(self, broker_id: int, answers: Answers) -> None:
        self._broker_id = broker_id
        self._answers = answers

    def call(self, verb: str, *, timeout_s: float, **fields: Any) -> Any:
        """Answer."""
        if not self._answers:
            raise ControlError(f"broker {self._broker_id} cannot be reached.")
        answer = self._answers[verb]
        return answer(**fields) if callable(answer) else answer


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let commands find these brokers, by their answers."""

    def serve(*answers: Answers) -> None:
        brokers = {broker_id: _Broker(broker_id, each) for broker_id, each in enumerate(answers, start=1)}
        monkeypatch.setattr("syncline.local.control.controls", lambda _: brokers)

    return serve


def row(partition: int, committed: int | None, end: int, **more: Any) -> dict[str, Any]:
    """Return a row as the verb has it."""
    lag = None if committed is None else end - committed
    status = {"status": "OK", "rule": "no-commits" if committed is None else "no-lag"}
    return {
        "topic": "t",
        "partition": partition,
        "committed": committed,
        "fetch_offset": None,
        "fetch_lag": None,
        "log_start": 0,
        "ends": {"hw": end, "lso": end - 1, "leo": end + 2},
        "leader": 1,
        "lag_hw": lag,
        "lag_lso": None if lag is None else max(0, lag - 1),
        "lag_leo": None if lag is None else lag + 2,
        "readable": lag,
        "lost": 0,
        "lag_bytes": None if lag is None else 100 * lag,
        "staleness_ms": None if lag is None else 1_500 * bool(lag),
        "event_lag_ms": None,
        "catch_up_s": None if lag is None else 0.0 if not lag else "never",
        "retention_margin_s": None,
        "loses_data": False,
        **status,
        "is_estimated": False,
        "is_beyond_end": False,
        "at_ms": 1,
        "skew_ms": 0,
        "member": "",
        "client_id": "",
        "host": "",
        "verdict": {**status, "complete": 1.0, "current_lag": lag or 0, "evidence": {"lag": lag or 0}},
        **more,
    }


def group_answer(*rows: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return a page of one group."""
    return {
        "broker": 1,
        "standing": "NONE",
        "partitions": len(rows),
        "without_commit": sum(each["committed"] is None for each in rows),
        "group": "g",
        "state": "Stable",
        "members": 2,
        "status": "OK",
        "rows": list(rows),
        "verdict": {"status": "OK", "complete": 1.0, "total_lag": 5, "worst": ["t", 0]},
        "findings": [],
        "unanswered": [],
        "next": None,
        **more,
    }


ELSEWHERE = {"lag.group": {"broker": 2, "standing": "NOT_COORDINATOR"}}
THREE = (row(0, 10, 15), row(1, 20, 20), row(2, None, 7))


def test_l36_lag_without_a_commit_is_no_number(cluster: Callable[..., None]) -> None:
    """Ends 15, 20 and 7, commits 10, 20 and none; JSON has the same numbers, and which end they count up to."""
    cluster(ELSEWHERE, {"lag.group": group_answer(*THREE)})

    found = json.loads(call("lag", "g", "--json"))
    shown = call("lag", "g").splitlines()

    assert [each["lag"] for each in found["rows"]] == [5, 0, None]
    assert (found["total"], found["max"], found["end"]) == (5, 5, "hw")
    assert [line.split()[:5] for line in shown[2:5]] == [
        ["t", "0", "10", "15", "5"],
        ["t", "1", "20", "20", "0"],
        ["t", "2", "-", "7", "-"],
    ]
    assert shown[0] == "group g: OK, stable, 2 members"
    assert shown[5] == "lag up to hw: total 5, at most 5 in one partition"


@pytest.mark.parametrize(("end", "lags", "total"), [("lso", [4, 0, None], 4), ("leo", [7, 2, None], 9)])
def test_lag_counts_up_to_the_end_that_is_named(
    cluster: Callable[..., None], end: str, lags: list[int | None], total: int
) -> None:
    """There is no single lag."""
    cluster({"lag.group": group_answer(*THREE)})

    found = json.loads(call("lag", "g", "--json", "--end", end))

    assert [each["lag"] for each in found["rows"]] == lags
    assert (found["total"], found["end"]) == (total, end)


def test_partition_whose_leader_is_silent_is_counted_as_unknown(cluster: Callable[..., None]) -> None:
    """Guards: the total was said without a word about what is not in it."""
    cluster({"lag.group": group_answer(*THREE, unanswered=[{"topic": "t", "partition": 3, "error": "NOT_LEADER"}])})

    assert "lag up to hw: total 5, at most 5 in one partition; unknown in 1 partition" in call("lag", "g")


@pytest.mark.parametrize(
    ("rows", "first", "last"),
    [
        ((row(0, None, 7, client_id="app", fetch_offset=7),), "no commits, stable", "none (the group has"),
        ((), "stable", "it has no committed offsets in an existing topic"),
    ],
    ids=["never-commits", "all-topics-deleted"],
)
def test_group_of_which_no_commit_counts_is_not_called_ok(
    cluster: Callable[..., None], rows: tuple[dict[str, Any], ...], first: str, last: str
) -> None:
    """Guards: it was OK, with a lag of 0 in all or without a word."""
    cluster({"lag.group": group_answer(*rows)})

    lines = call("lag", "g").splitlines()
    assert lines[0] == f"group g: {first}, 2 members"
    assert last in lines[-1]


def test_pages_of_a_group_are_put_together(cluster: Callable[..., None]) -> None:
    """A group may have more partitions than one answer holds."""

    def page(group: str, count: int, **fields: int) -> dict[str, Any]:
        first = fields.get("from", 0)
        assert (group, count) == ("g", 500)
        return group_answer(THREE[first], next=first + 1 if first < 2 else None)

    cluster({"lag.group": page})

    assert [each["partition"] for each in json.loads(call("lag", "g", "--json"))["rows"]] == [0, 1, 2]


def test_groups_of_all_brokers_are_listed_and_those_of_a_silent_one_missed(cluster: Callable[..., None]) -> None:
    """Each broker knows the groups that it coordinates."""
    summary = {
        "state": "Empty",
        "members": 0,
        "status": "ERR",
        "partitions": 1,
        "without_commit": 0,
        "missing": 0,
        "readable": 5,
        "lost": 3,
        "lag_bytes": 1_234,
        "event_lag_ms": 1,
        "catch_up_s": None,
        "retention_margin_s": None,
        "loses_data": True,
        "worst": "t-0",
        "lag_records": 5,
        "lags": {"hw": 5, "lso": 4, "leo": 7},
        "staleness_ms": 60_000,
    }
    cluster(
        {"lag.groups": {"groups": [{"group": "b", **summary}], "next": None}},
        {},
        {"lag.groups": {"groups": [{"group": "a", **summary}], "next": None}},
    )

    shown = call("lag")

    rows = [line.split() for line in shown.splitlines()[1:3]]
    assert rows == [
        [name, "empty", "0", "ERR", "5", "1,234", "60", "s", "3", "t-0", "loses", "data"] for name in ("a", "b")
    ]
    assert call("lag", "--end", "leo").splitlines()[1].split()[4] == "7"
    by_log_end = json.loads(call("lag", "--end", "leo", "--json"))
    assert [(each["lag"], each["end"]) for each in by_log_end["groups"]] == [(7, "leo")] * 2
    assert "broker 2 cannot be reached." in shown
    assert "Any groups coordinated by 1 broker that did not answer are missing." in shown


def test_group_is_explained_in_words(cluster: Callable[..., None]) -> None:
    """The verdict of its worst partition with its numbers, then the causes, then what nobody knows."""
    verdict = {
        "status": "STOP",
        "rule": "stopped",
        "complete": 1.0,
        "current_lag": 12_345,
        "evidence": {"lag": 12_345, "silent_ms": 580_000, "window_ms": 540_000, "commits": 10},
    }
    stopped = row(
        3, 10, 12_355, status="STOP", rule="stopped", verdict=verdict, staleness_ms=571_000, is_estimated=True
    )
    danger = {"lost": 0, "loses_data": True, "unread": 12_345, "margin_s": 60.0, "catch_up_s": "never"}
    cluster(
        {
            "lag.group": group_answer(
                stopped,
                status="ERR",
                verdict={"status": "ERR", "complete": 1.0, "total_lag": 12_345, "worst": ["t", 3]},
                findings=[{"cause": "loses-data", "evidence": danger, "partition": ["t", 3]}],
                unanswered=[{"topic": "t", "partition": 4, "error": "LEADER_NOT_AVAILABLE"}],
            )
        }
    )

    told = call("lag", "explain", "g").split("\n\n")

    assert told[0].startswith("Group g is ERR: 12,345 unread records")
    assert told[1].startswith("t-3 is STOP: last commit")
    assert "t-3 will lose data in 60 s" in told[2]
    assert told[3].startswith("Nothing is known about t-4 (LEADER_NOT_AVAILABLE)")
    assert "estimated" in told[4]
    assert json.loads(call("lag", "explain", "g", "--json"))["words"] == [part.strip() for part in told]


@pytest.mark.parametrize(
    ("answers", "arguments", "complaint"),
    [
        pytest.param([ELSEWHERE, ELSEWHERE], ("g",), "there is no group 'g'.", id="unknown"),
        pytest.param(
            [ELSEWHERE, {}],
            ("g",),
            "knows group 'g'; broker 2 does not answer and may know it.",
            id="unknown-and-silent",
        ),
        pytest.param(
            [ELSEWHERE, {}, {}], ("g",), "brokers 2, 3 do not answer and may know it.", id="unknown-and-two-silent"
        ),
        pytest.param([{}, {}], ("g",), "broker 1 cannot be reached.", id="all-silent"),
        pytest.param([{}, {}], (), "broker 2 cannot be reached.", id="all-silent-about-all"),
        pytest.param(
            [{"lag.group": {"standing": "COORDINATOR_LOAD_IN_PROGRESS"}}],
            ("g",),
            "broker 1 is still loading its groups.",
            id="loading",
        ),
        pytest.param(
            [ELSEWHERE, {"lag.group": {"standing": "COORDINATOR_NOT_AVAILABLE"}}],
            ("g",),
            "broker 2 coordinates group 'g' but cannot read its group log",
            id="damaged-log-of-groups",
        ),
        pytest.param([ELSEWHERE], ("explain",), "`syncline lag explain GROUP`", id="explain-without-a-group"),
        pytest.param([ELSEWHERE], ("a", "b"), "name one group", id="two-groups"),
        pytest.param([ELSEWHERE], ("g", "--readers"), "do not name a group", id="readers-of-a-group"),
        pytest.param([ELSEWHERE], ("--readers", "--end", "leo"), "leave out --end", id="end-of-readers"),
        pytest.param([ELSEWHERE], ("explain", "g", "--end", "hw"), "leave out --end", id="end-of-explain"),
        pytest.param([{}, {}], ("--readers",), "broker 1 cannot be reached.", id="all-silent-about-readers"),
        pytest.param([ELSEWHERE], ("--readers", "-b", "x:1"), "with --data", id="readers-elsewhere"),
        pytest.param([{}], ("--watch",), "broker 1 cannot be reached.", id="watch-nobody"),
        pytest.param([ELSEWHERE], ("explain", "g", "-b", "x:1"), "with --data", id="explain-elsewhere"),
    ],
)
def test_what_cannot_be_shown_is_said(
    cluster: Callable[..., None], answers: list[Answers], arguments: tuple[str, ...], complaint: str
) -> None:
    """One sentence, with what to do."""
    cluster(*answers)

    assert complaint in refusal("lag", *arguments)


def test_l39_reader_without_commits_has_a_position_and_the_status_no_commits(cluster: Callable[..., None]) -> None:
    """And a partition that nobody reads has neither."""
    reads = row(0, None, 15, fetch_offset=11, fetch_lag=4, client_id="app")
    cluster({"lag.group": group_answer(reads, row(1, None, 7))})

    header, first, second = call("lag", "g").splitlines()[1:4]

    assert cells(header, first, "POSITION", "TO-FETCH", "STATUS", "MEMBER") == ["11", "4", "no commits", "app"]
    assert cells(header, second, "POSITION", "TO-FETCH", "STATUS", "MEMBER") == ["-", "-", "-", "-"]


def cells(header: str, line: str, *columns: str) -> list[str]:
    """Return the cells of a line below these columns."""
    starts = [header.index(column) for column in columns]
    return [re.split(r"\s{2,}", line[start:])[0] for start in starts]


def reader(partition: int, client_id: str, **more: Any) -> dict[str, Any]:
    """Return a reader as the verb has it."""
    return {
        "topic": "t",
        "partition": partition,
        "client_id": client_id,
        "host": "10.0.0.1",
        "position": 1_000,
        "end": 1_010,
        "lag": 10,
        "fetched_ago_ms": 500,
        "held_back_share": 0.0,
        "is_shared": False,
        "is_connected": True,
        "is_leader": True,
        **more,
    }


def test_readers_of_all_brokers_are_shown_with_the_group_that_one_of_them_knows(cluster: Callable[..., None]) -> None:
    """The latest fetch counts where two brokers know one; nobody guesses whose reads a shared name's are."""
    member = {"group": "g", "member": "m", "client_id": "app", "host": "10.0.0.1", "topics": {"t": [0, 1]}}
    held = reader(0, "app", held_back_share=0.25)
    cluster(
        {"lag.readers": {"readers": [held, reader(2, "solo", is_leader=False)], "members": [], "next": None}},
        {
            "lag.readers": {
                "readers": [reader(0, "app", fetched_ago_ms=9_000), reader(1, "app", is_shared=True)],
                "members": [member],
                "next": None,
            }
        },
        {"lag.readers": {"readers": [reader(3, "gone", is_connected=False)], "members": [], "next": None}},
    )

    found = json.loads(call("lag", "--readers", "--json"))["readers"]
    header, *lines, _, gone = call("lag", "--readers").splitlines()

    assert [(each["partition"], each["group"], each["fetched_ago_ms"]) for each in found] == [
        (0, "g", 500),
        (1, None, 500),
        (2, None, 500),
        (3, None, 500),
    ]
    assert [cells(header, line, "CLIENT", "POSITION", "GROUP", "NOTE") for line in lines] == [
        ["app", "1,000", "g", "held back 25 % of the time"],
        ["app", "1,000", "-", "several clients with this name"],
        ["solo", "1,000", "-", "from a follower, broker 1"],
    ]
    assert gone == "1 position of disconnected clients not shown: --json includes them."


@pytest.mark.parametrize(
    ("retention_s", "shown"),
    [(60.0, "60 s"), (600.0, "10 min"), (9_000.0, "2.5 h"), (604_800.0, "7 days"), ("never", "never"), (0.0, "now")],
)
def test_times_are_shown_in_the_unit_that_people_use(
    cluster: Callable[..., None], retention_s: float | str, shown: str
) -> None:
    """Guards: a week was shown as 10080 min."""
    cluster({"lag.group": group_answer(row(0, 10, 15, retention_margin_s=retention_s))})

    header, line = call("lag", "g").splitlines()[1:3]

    assert cells(header, line, "RETENTION") == [shown]


@pytest.mark.process
def test_lag_of_a_running_cluster_by_its_brokers_and_by_kafkas_api(
    read: tuple[str, str], at: tuple[str, str], three_brokers: Any
) -> None:
    """Both have the same records; only brokers know bytes and times."""
    topic, group = read

    by_brokers = as_json("lag", group, *at)
    by_api = json.loads(call("lag", group, "--json", "--bootstrap", three_brokers.bootstrap))
    shown = call("lag", "--bootstrap", three_brokers.bootstrap)

    for found in (by_brokers, by_api):
        (only,) = found["rows"]
        assert (only["topic"], only["committed"], only["end"], only["lag"]) == (topic, 4, 10, 6)
        assert found["total"] == 6
    assert by_brokers["rows"][0]["lag_bytes"] > 0
    assert by_brokers["rows"][0]["staleness_ms"] > 0
    assert by_api["rows"][0]["lag_bytes"] is None
    assert by_api["rows"][0]["event_lag_ms"] >= 0
    assert group in shown
    assert "Kafka's API does not report" in shown
    assert group in succeed("lag", *at)
    assert f"Group {group} is" in call("lag", "explain", group, *at)
