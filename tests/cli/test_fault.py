"""`fault add`, `list` and `clear`: their output, and how they refuse invalid options."""

import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from syncline.local.control import Control, ControlError
from syncline.local.faults import Faults
from syncline.local.named_brokers import NamedBrokers
from syncline.node.faults.table import KINDS
from tests.cli.terminal import as_json, call, refusal, refused, run, succeed
from tests.cluster import LocalCluster

pytestmark = pytest.mark.process


@pytest.fixture(autouse=True)
def faults(three_brokers: LocalCluster) -> Iterator[Faults]:
    """The faults of the shared cluster; the fixture clears them."""
    found = Faults(three_brokers.directory)
    yield found
    found.clear()


def test_fault_is_added_listed_and_cleared(at: tuple[str, str], topic: str) -> None:
    """The three commands as a user sees them: a sentence, a table, a sentence."""
    said = succeed(
        "fault", "add", "disk-slow", "--broker", "leader", "--partition", f"{topic}:1", "--direction", "read",
        "--delay", "1.5s", "--for", "2m", "--id", "slow", *at,
    )  # fmt: skip
    assert said.startswith("slow: disk-slow at broker ")
    # Asked for a moment after it began.
    assert re.search(rf"\(read {topic}:1 1500 ms\), for (120|119\.\d+) s", said)

    header, row = call("fault", "list", *at).splitlines()
    assert header.split() == ["ID", "KIND", "BROKERS", "WHAT", "TRIGGER", "SEEN", "HITS", "STATE"]
    assert row.split()[:2] == ["slow", "disk-slow"]
    assert row.endswith("s left")

    assert call("fault", "clear", "slow", *at) == "slow: disk-slow cleared; it took effect 0 times\n"
    assert call("fault", "list", *at) == "no faults\n"
    assert call("fault", "clear", *at) == "no faults\n"


def test_fault_speaks_json(at: tuple[str, str]) -> None:
    """Every command has JSON output, with the counters that tests assert on."""
    added = as_json(
        "fault", "add", "api-error", "--api", "metadata", "--client", "nobody", "--error", "NOT_CONTROLLER",
        "--trigger", "every=2", *at,
    )  # fmt: skip
    assert added["brokers"] == [1, 2, 3]
    assert added["what"] == "METADATA client nobody NOT_CONTROLLER"

    (listed,) = as_json("fault", "list", *at)["faults"]
    assert (listed["id"], listed["kind"], listed["state"]) == (added["id"], "api-error", "active")
    assert (listed["hits"], listed["seen"], listed["left_s"]) == (0, 0, None)
    assert listed["rows"]["2"]["trigger"] == "every=2"

    (cleared,) = as_json("fault", "clear", *at)["cleared"]
    assert (cleared["id"], cleared["state"]) == (added["id"], "over")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("add fire", "there is no kind of fault 'fire'. Known kinds: disk-slow, "),
        ("add disk-slow", "disk-slow needs --delay."),
        ("add disk-slow --delay soon", "--delay takes a time with its unit, such as 500ms, 20s or 2m, not 'soon'."),
        ("add disk-slow --delay 2", "--delay takes a time with its unit, such as 500ms, 20s or 2m, not '2'."),
        ("add disk-fail --for 20", "--for takes a time with its unit, such as 500ms, 20s or 2m, not '20'."),
        ("add disk-slow --delay 1h", "a delay is at most 600 s, not 3600."),
        ("add disk-fail --for never", "--for takes a time with its unit"),
        ("add disk-fail --for 0s", "a fault lasts for more than 0 s, not 0."),
        ("add disk-fail --delay 1s", "disk-fail does not take --delay."),
        ("add disk-fail --from 1 --to 2", "disk-fail does not take --from, --to."),
        ("add disk-fail --errno EPERM", "--errno must be one of EIO, "),
        ("add disk-fail --direction up", "--direction must be a list of read, write, sync"),
        ("add disk-fail --partition orders", "--partition takes TOPIC:NUMBER, such as orders:3, not 'orders'."),
        (
            "add disk-fail --topic a --partition b:1",
            "--partition b:1 does not belong to --topic a: leave out one of them.",
        ),
        ("add disk-fail --trigger sometimes", "a trigger must be always, once, nth=N"),
        ("add disk-fail --broker 9", "there is no broker 9 in "),
        ("add disk-fail --broker somebody", "a node is a broker's number, controller, leader, followers or all"),
        ("add disk-fail --broker leader", "'leader' needs a partition: name one with --partition TOPIC:NUMBER."),
        ("add disk-fail --broker leader --partition nowhere:0", "there is no partition 0 of 'nowhere'."),
        ("add disk-stuck --direction sync", "limit its time with --for"),
        ("add link-cut --from 1", "link-cut needs both ends of the link: --from and --to."),
        ("add link-cut --from 1 --to 1", "both ends of the link are broker 1: name two brokers."),
        ("add link-cut --from 1 --to 7", "there is no broker 7 in "),
        ("add link-cut --from 1 --to 2 --broker 3", "link-cut does not take --broker."),
        ("add link-delay --from 1 --to 2", "link-delay needs --delay."),
        ("add api-error --api produce", "api-error needs --error."),
        ("add api-error --error 3", "api-error needs --api."),
        ("add api-error --api produce --error ODD", "--error must be a Kafka error code"),
        ("add api-drop-reply --api post", "there is no request 'post'. Known requests: PRODUCE, FETCH"),
        ("add api-disconnect", "api-disconnect needs --api or --client or --topic."),
        ("add api-disconnect --api fetch --listener both", "--listener must be one of client, internal"),
        ("add pause", "pause needs --broker."),
        ("add pause --broker all", "pause takes one broker, not 1, 2, 3."),
        ("add kill --broker 4", "there is no broker 4 in "),
        ("add kill --broker 1 --for 3s", "kill does not take --for."),
        ("add kill --broker 1 --api fetch", "kill does not take --api."),
        ("add kill --broker 1 --topic t", "kill does not take --topic."),
        ("add pause --broker 1 --partition t:1", "pause does not take --topic, --partition."),
        ("add pause --broker 1 --id mine", "pause does not take --id."),
        ("add pause --broker 1 --for 9999h", "a fault lasts for at most 2147483 s, not"),
        ("add link-cut --from 1 --to 2 --topic t", "link-cut does not take --topic."),
        ("add disk-fail --id pause-1", "'pause-1' is reserved for the pause of that broker"),
        ("add api-error --error 3 --client x", "api-error needs --api."),
        ("clear f-none", "there is no fault 'f-none': `syncline fault list` shows all faults."),
    ],
)
def test_fault_is_refused_in_a_sentence(at: tuple[str, str], arguments: str, sentence: str) -> None:
    """The message says what is wrong and what is allowed; no fault begins."""
    assert sentence in refusal("fault", *arguments.split(), *at)
    assert call("fault", "list", *at) == "no faults\n"


@pytest.mark.parametrize("command", ["add disk-fail", "list", "clear"])
def test_fault_needs_a_running_cluster(tmp_path: Path, command: str) -> None:
    """The message names the directory, and how to start a cluster."""
    sentence = refusal("fault", *command.split(), "--data", str(tmp_path))
    assert f"no cluster is running in {tmp_path}" in sentence
    assert "Start one with `syncline up`" in sentence


def test_fault_refusal_is_one_line_and_exit_code_1(at: tuple[str, str]) -> None:
    """The process prints one sentence and no traceback."""
    assert "there is no kind of fault 'fire'" in refused("fault", "add", "fire", *at)


def test_fault_of_what_is_not_there_is_begun_with_a_remark(at: tuple[str, str]) -> None:
    """The topic may be created later; the command still warns, because it may be a typing error."""
    shown = run("fault", "add", "disk-fail", "--partition", "nowhere:3", *at)
    assert shown.returncode == 0
    assert "disk-fail at broker 1, 2, 3" in shown.stdout
    assert "the fault has started, but there is no partition 3 of 'nowhere'." in shown.stderr


def test_clear_fails_while_a_broker_may_still_have_the_fault(
    at: tuple[str, str], three_brokers: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards: "cleared", and exit code 0, although one of three brokers had not answered and kept the fault."""
    succeed("fault", "add", "disk-fail", "--topic", "not-there", "--id", "stays", *at)
    silent = NamedBrokers(three_brokers.directory).controls[2]
    answers = Control.call

    def call_others(control: Control, verb: str, **fields: Any) -> Any:
        if control.port == silent.port:
            raise ControlError("broker 2 does not answer within 10 s")
        return answers(control, verb, **fields)

    monkeypatch.setattr(Control, "call", call_others)
    with warnings.catch_warnings():
        # As in `terminal.call`.
        warnings.simplefilter("ignore", DeprecationWarning)
        from syncline.cli.commands import command_line
    with pytest.raises(SystemExit) as ended:
        command_line()(["fault", "clear", "--json", *at])
    assert ended.value.code == 1

    monkeypatch.undo()
    assert [fault["id"] for fault in as_json("fault", "clear", *at)["cleared"]] == ["stays"]


def test_fault_help_names_every_kind() -> None:
    """The help lists all kinds and options."""
    shown = " ".join(succeed("fault", "add", "--help").split())
    assert [kind for kind in KINDS if kind not in shown] == []
