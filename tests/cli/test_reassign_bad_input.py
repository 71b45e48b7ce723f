"""`syncline reassign` and `throttle` given values that mean nothing: a sentence or a usage error, never a traceback.

Each option gets each value at a scripted cluster. Nothing may change there.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from syncline.local.layout import LocalClusterError
from syncline.model.ids import TopicPartition
from tests.cli.scripted_kafka import ScriptedKafka, Serve, at
from tests.cli.terminal import USAGE, refusal

FOO_0 = TopicPartition("foo", 0)
HUGE = "9" * 5_000
HUGE = "9" * 5_000
# Every kind of value is refused by the parsers (tests/reassign/test_amounts.py); here, that every option asks them.
AMOUNTS = ("9223372036854775808", HUGE, "\ud800")
SPANS = ("99999999999999999h", f"{HUGE}s", "nan")
PERCENTS = ("0", HUGE)
IDS = ("2147483648", f"1,{HUGE}")
PLACES = ("foo:", "foo:-1", f"foo:{HUGE}", "foo:\ud800", "\ud800", "foo:１")
REPLICAS = ("", f"{HUGE}:1", "\ud800", "0:1;0:2")
TOPICS = ("", "\ud800", "x" * 10_000)
PLAN = "PLAN"
EXECUTE, PLANNED = ("reassign", "execute", "-f", PLAN), ("reassign", "plan", "-f", PLAN)
SET = ("throttle", "set")
OPTIONS: list[tuple[tuple[str, ...], str, tuple[str, ...]]] = [
    (EXECUTE, "--throttle", AMOUNTS),
    (EXECUTE, "--replica-alter-log-dirs-throttle", AMOUNTS),
    ((*EXECUTE, "--deadline", "10m"), "--link-capacity", (*AMOUNTS, "0", "0.4")),
    (EXECUTE, "--deadline", SPANS),
    (EXECUTE, "--max-client-impact", PERCENTS),
    (("reassign", "resume"), "--deadline", SPANS),
    (("reassign", "resume"), "--max-client-impact", PERCENTS),
    (("reassign", "resume", "--deadline", "10m"), "--link-capacity", (*AMOUNTS, "0")),
    (PLANNED, "--throttle", AMOUNTS),
    (PLANNED, "--deadline", SPANS),
    (PLANNED, "--keep-clients", PERCENTS),
    (PLANNED, "--max-client-impact", PERCENTS),
    (PLANNED, "--link-capacity", (*AMOUNTS, "0")),
    (("reassign", "generate", "--minimal"), "--broker-list", IDS),
    ((*SET, "--brokers", "1"), "--rate", AMOUNTS),
    ((*SET, "--rate", "1MB"), "--brokers", IDS),
    ((*SET, "--topic", "foo"), "--replicas", REPLICAS),
    (SET, "--topic", TOPICS),
    (("throttle", "clear"), "--brokers", IDS),
    (("throttle", "clear"), "--topic", TOPICS),
]
# The command line itself refuses most of these.
TYPED: list[tuple[tuple[str, ...], str, tuple[str, ...]]] = [
    (EXECUTE, "--timeout", ("-5", "nan", HUGE, "1" + "0" * 400)),
    (PLANNED, "--measure", ("0", "nan", "inf", "1e11", HUGE)),
]
ARGUMENTS: list[tuple[tuple[str, ...], tuple[str, ...]]] = [
    (("throttle", "explain"), PLACES),
    (("reassign", "resume"), ("\ud800", HUGE, "\x1b[0m")),
]
PLANS = (
    "",
    "[" * 100_000,
    '{"version":' + HUGE + ',"partitions":[]}',
    '{"partitions":[{"topic":"\\ud800","partition":0,"replicas":[1,2,5]}]}',
    '{"partitions":[{"topic":"foo","partition":0,"replicas":[1,2,5],"log_dirs":["/\\ud800","any","any"]}]}',
)
TOPIC_FILES = ('{"topics":7}', '{"topics":[{"topic":"\\ud800"}]}')


@pytest.fixture
def kafka(serve: Serve) -> Iterator[ScriptedKafka]:
    """A Syncline where foo-0 moves with a throttle, and nothing else may change."""
    cluster = serve(owns_throttles=True)
    cluster.moving[FOO_0], cluster.original[FOO_0] = ((5,), (3,)), (1, 2, 3)
    cluster.replicas[FOO_0] = (1, 2, 5, 3)
    cluster.move_of[FOO_0] = "m-1"
    cluster.moves["m-1"] = {
        "move_id": "m-1",
        "throttle": 1_000,
        "control": "",
        "deadline_ms": -1,
        "impact_percent": -1,
        "name": "",
        "started_ms": 0,
    }
    yield cluster
    assert cluster.changes == []


def is_refused(kafka: ScriptedKafka, *arguments: str) -> str:
    """Return the sentence with which a command refuses, or "" for a usage error."""
    with pytest.raises(Exception) as caught:
        at(kafka, *arguments)
    if getattr(caught.value, "exit_code", None) == USAGE:
        return ""
    sentence = str(caught.value)
    assert isinstance(caught.value, LocalClusterError), f"{arguments}: {caught.value!r}"
    assert "\n" not in sentence
    assert len(sentence) < 1_000
    return sentence


def test_t43_every_option_refuses_nonsense_in_a_sentence(kafka: ScriptedKafka, plan: Callable[..., str]) -> None:
    """Huge numbers, negative ones, no numbers, digits of other scripts, texts that cannot be encoded."""
    file = plan({FOO_0: (1, 2, 5)})
    for command, option, values in OPTIONS:
        for value in values:
            words = [file if word == PLAN else word for word in command]
            additional = ["--additional"] if "execute" in command else []
            assert is_refused(kafka, *words, *additional, f"{option}={value}"), (command, option, value)
    for command, option, values in TYPED:
        for value in values:
            is_refused(kafka, *[file if word == PLAN else word for word in command], f"{option}={value}")


def test_t43_arguments_that_name_nothing_are_refused(kafka: ScriptedKafka) -> None:
    """Places and moves."""
    for command, values in ARGUMENTS:
        for value in values:
            assert is_refused(kafka, *command, value), (command, value)


def test_t43_files_of_any_shape_are_refused_in_a_sentence(kafka: ScriptedKafka, tmp_path: Path) -> None:
    """Wrong JSON, and numbers and texts that no request can carry; more in tests/reassign/test_plan_file.py."""
    file = tmp_path / "plan.json"
    for text in PLANS:
        file.write_text(text)
        for command in ("execute", "plan", "verify", "cancel"):
            assert is_refused(kafka, "reassign", command, "-f", str(file)), (command, text[:100])
    for text in TOPIC_FILES:
        file.write_text(text)
        named = ("--topics-to-move-json-file", str(file))
        assert is_refused(kafka, "reassign", "generate", "--broker-list", "1,2,3", *named), text


def test_t43_what_is_no_file_of_text_is_refused(kafka: ScriptedKafka, tmp_path: Path) -> None:
    """A directory, what does not exist, other bytes than UTF-8, a name that is too long, one without end."""
    other = tmp_path / "bytes.json"
    other.write_bytes(b"\xff\xfe{}")
    for place in (str(tmp_path), "", str(other), "x" * 5_000, os.fsdecode(b"\xff"), "/dev/zero"):
        assert is_refused(kafka, "reassign", "execute", "-f", place).startswith("cannot read"), place


def test_name_of_a_plan_that_is_no_text_is_a_name_nevertheless(serve: Serve, tmp_path: Path) -> None:
    """File names may have any bytes, and terminals obey some of them; the name of a move is shown to everybody."""
    kafka = serve(owns_throttles=True)
    file = tmp_path / os.fsdecode(b"\xff\x1b]0;x\x07.json")
    file.write_text('{"partitions":[{"topic":"foo","partition":0,"replicas":[1,2,5]}]}')

    at(kafka, "reassign", "execute", "-f", str(file))

    assert kafka.moves["m-1"]["name"] == "??]0;x?.json"


def test_page_of_a_report_that_cannot_be_written_is_refused_first(tmp_path: Path) -> None:
    """Before the journal is read: no directory, a directory in its place, a name that is too long, one nobody may."""
    taken = tmp_path / "taken"
    taken.mkdir()
    nowhere = ("reassign", "report", "--bootstrap", "127.0.0.1:1")
    for place in (tmp_path / "none" / "p.html", taken, tmp_path / ("x" * 5_000), Path("/dev/null/p.html")):
        assert refusal(*nowhere, "--html", str(place)).startswith("cannot write")
    for since in ("", "-5m", "nan", HUGE, "\ud800"):
        assert refusal(*nowhere, "--since", since).startswith("--since takes")


def test_address_that_is_none_is_refused() -> None:
    """Also one that no name service can be asked for."""
    for address in ("", ":", "x:99999", "\ud800:1", "a..b:1", "x" * 300 + ":1", "[::1", "１:１"):
        assert refusal("reassign", "list", "--bootstrap-server", address), address
