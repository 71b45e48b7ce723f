"""`syncline reassign`: what it asks a cluster for, in which order, and what it prints."""

import json
import socket
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from syncline.model.errors import ErrorCode
from syncline.model.ids import TopicPartition
from tests.cli.scripted_kafka import BROKER, TOPIC, ScriptedKafka, Serve, at, fails, refuses

with warnings.catch_warnings():
    # typer uses what click is about to drop.
    warnings.simplefilter("ignore", DeprecationWarning)
    from syncline.cli.reassign.goals import fact_words

FOO_0, FOO_1, FOO_2 = (TopicPartition("foo", index) for index in range(3))
BAR_0 = TopicPartition("bar", 0)
WARNING = (
    "Warning: You must run --verify periodically, until the reassignment completes, to ensure the throttle is removed."
)
CURRENT = '{"version":1,"partitions":[{"topic":"foo","partition":0,"replicas":[1,2,3],"log_dirs":["/d","/d","/d"]}]}'


def test_t40_generate_prints_two_plans_and_changes_nothing(serve: Serve, tmp_path: Path) -> None:
    """An unknown topic and too few brokers are refused in the tool's words."""
    kafka = serve(racks={1: "a", 2: "a", 3: "b"})
    topics = tmp_path / "topics.json"
    topics.write_text('{"version":1,"topics":[{"topic":"foo"}]}')
    named = ("--topics-to-move-json-file", str(topics), "--broker-list")

    lines = at(kafka, "reassign", "generate", *named, "1,2,3,4,5", "--disable-rack-aware").splitlines()

    assert [lines[0], lines[2], lines[3]] == [
        "Current partition replica assignment",
        "",
        "Proposed partition reassignment configuration",
    ]
    for line in (lines[1], lines[4]):
        rows = json.loads(line)["partitions"]
        assert [(row["topic"], row["partition"], len(set(row["replicas"]))) for row in rows] == [
            ("foo", 0, 3),
            ("foo", 1, 3),
        ]
    assert [row["log_dirs"] for row in json.loads(lines[1])["partitions"]] == [["/d"] * 3] * 2
    assert len(lines) == 5
    assert (
        refuses(kafka, "reassign", "generate", *named, "1,2")
        == "Replication factor: 3 larger than available brokers: 2."
    )
    assert refuses(kafka, "reassign", "generate", *named, "1,2,3,4").startswith(
        "Not all brokers have rack information."
    )
    topics.write_text('{"topics":[{"topic":"quux"}]}')
    assert refuses(kafka, "reassign", "generate", *named, "1,2") == "Topic quux not found."
    sentence = refuses(kafka, "reassign", "generate", "--broker-list", "1,2")
    assert sentence.startswith('Missing required argument "[topics-to-move-json-file]"')
    assert "--topics-to-move-json-file FILE" in sentence
    assert "--minimal" in sentence
    assert kafka.changes == []


def test_t40_generate_refuses_brokers_that_there_are_not(
    serve: Serve, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With either proposal; one that is down exists, and is noted, as it gets nothing."""
    kafka = serve(brokers=(1, 2, 4))
    topics = tmp_path / "topics.json"
    topics.write_text('{"topics":[{"topic":"foo"}]}')

    for how in (("--minimal",), ("--topics-to-move-json-file", str(topics))):
        sentence = refuses(kafka, "reassign", "generate", "--broker-list", "1,2,4,77", *how)
        assert sentence.startswith("Unknown broker id 77")
        at(kafka, "reassign", "generate", "--broker-list", "1,2,3,4", *how)
        assert "broker 3 is down" in capsys.readouterr().err


def test_t40_generate_minimal_moves_the_smallest_partition_and_tells_the_cost(serve: Serve) -> None:
    """Broker 4 has a fourth of one topic; a fifth broker gets two replicas, of what is small."""
    kafka = serve(brokers=(1, 2, 3, 4), sizes={(FOO_0, 1): 5_000_000, (FOO_1, 1): 1_000, (BAR_0, 2): 9_000_000})

    plans = json.loads(at(kafka, "reassign", "generate", "--broker-list", "1,2,3,4", "--minimal", "--json"))

    assert {row["topic"] for row in plans["proposed"]["partitions"]} == {"foo", "bar"}
    assert plans["copied_bytes"] == 1_000
    assert plans["move_ratio"] == pytest.approx(1 / 9)
    assert "1 new replica, 1 kB to copy" in at(kafka, "reassign", "generate", "--broker-list", "1,2,3,4", "--minimal")


def test_t40_proposed_plan_goes_to_a_file_that_execute_reads(serve: Serve, tmp_path: Path) -> None:
    """Whose name is on the last line; one that cannot be written is refused."""
    kafka = serve(brokers=(1, 2, 3, 4), owns_throttles=True)
    file = tmp_path / "plan.json"
    arguments = ("reassign", "generate", "--broker-list", "1,2,3,4", "--minimal", "--output")

    shown = at(kafka, *arguments, str(file))
    at(kafka, "reassign", "execute", "-f", str(file))

    assert shown.endswith(f"The proposed plan is in {file}.\n")
    assert json.loads(file.read_text()) == json.loads(shown.splitlines()[4])
    assert kafka.moves["m-1"]["name"] == "plan.json"
    for place in (tmp_path, tmp_path / "none" / "p.json"):
        assert refuses(kafka, *arguments, str(place)).startswith("cannot write")


def test_t41_execute_sets_lists_then_rates_then_moves(serve: Serve, plan: Callable[..., str]) -> None:
    """As Kafka's tool: no byte moves unthrottled, and the output is what scripts read."""
    kafka = serve()

    shown = at(kafka, "reassign", "execute", "-f", plan({FOO_0: (1, 2, 5)}), "--throttle", "1000000")

    assert shown.splitlines() == [
        "Current partition replica assignment",
        "",
        CURRENT,
        "",
        "Save this to use as the --reassignment-json-file option during rollback",
        WARNING,
        "The inter-broker throttle limit was set to 1000000 B/s",
        "Successfully started partition reassignment for foo-0",
    ]
    assert kafka.changes == [
        "topic foo leader.replicas=0:1,0:2,0:3",
        "topic foo follower.replicas=0:5",
        *(f"broker {broker} {role}.rate=1000000" for broker in (1, 2, 3, 5) for role in ("leader", "follower")),
        "alter foo-0 to 1,2,5",
    ]


def test_t41_move_that_owns_its_throttle_is_one_request(serve: Serve, plan: Callable[..., str]) -> None:
    """No configuration is touched, so none can be left behind, and nobody has to verify."""
    kafka = serve(owns_throttles=True)

    shown = at(kafka, "reassign", "execute", "-f", plan({FOO_0: (1, 2, 5), FOO_1: (4, 2, 3)}), "--throttle", "1MB/s")

    assert kafka.changes == ["alter foo-0 to 1,2,5", "alter foo-1 to 4,2,3", "move m-1 at 1000000"]
    assert "Warning" not in shown
    assert shown.splitlines()[-2:] == [
        "The inter-broker throttle limit was set to 1000000 B/s",
        "Successfully started partition reassignments for foo-0,foo-1",
    ]
    assert kafka.moves["m-1"]["name"] == "plan.json"


def test_t41_output_as_json_has_the_way_back(serve: Serve, plan: Callable[..., str]) -> None:
    """For scripts that do not want to read sentences."""
    shown = json.loads(at(serve(owns_throttles=True), "reassign", "execute", "-f", plan({FOO_0: (1, 2, 5)}), "--json"))

    assert (shown["started"], shown["move"], shown["throttle_bytes_per_s"]) == (["foo-0"], "m-1", None)
    assert shown["rollback"]["partitions"][0]["replicas"] == [1, 2, 3]


def test_t42_second_execute_is_refused_while_one_runs(serve: Serve, plan: Callable[..., str]) -> None:
    """Configurations stay as they are; with --additional it is accepted, and the lists name both moves."""
    kafka = serve()
    at(kafka, "reassign", "execute", "-f", plan({FOO_0: (1, 2, 5)}))
    kafka.changes.clear()
    other = plan({FOO_1: (1, 2, 4)})

    sentence = refuses(kafka, "reassign", "execute", "-f", other, "--throttle", "5")

    assert sentence.startswith("Cannot execute because there is an existing partition assignment.  Use --additional")
    assert kafka.changes == []
    at(kafka, "reassign", "execute", "-f", other, "--throttle", "5", "--additional")
    assert kafka.changes[:2] == [
        "topic foo leader.replicas=0:1,0:2,0:3,1:1,1:2,1:3",
        "topic foo follower.replicas=0:5,1:4",
    ]


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        ({FOO_0: (1, 2, 9)}, "Unknown broker id 9"),
        ({TopicPartition("foo", 10): (1, 2, 3), BAR_0: (1, 2, 3)}, "Unable to find partition: foo-10"),
        ({FOO_0: ()}, "Partition replica list cannot be empty"),
        (
            {FOO_0: (1, 1, 2)},
            "Partition replica lists may not contain duplicate entries: foo-0 contains multiple entries for 1",
        ),
        ({}, "Partition reassignment list cannot be empty"),
    ],
)
def test_t43_bad_plans_change_nothing(
    serve: Serve, plan: Callable[..., str], targets: dict[TopicPartition, tuple[int, ...]], message: str
) -> None:
    """The tool's messages."""
    kafka = serve()

    assert refuses(kafka, "reassign", "execute", "-f", plan(targets), "--throttle", "1000") == message
    assert kafka.changes == []


def test_t43_file_that_cannot_be_read_is_named(serve: Serve, tmp_path: Path) -> None:
    """No traceback."""
    missing = str(tmp_path / "none.json")
    assert refuses(serve(), "reassign", "execute", "-f", missing) == f"cannot read {missing}: No such file or directory"


def test_change_of_the_replication_factor_needs_a_word(serve: Serve, plan: Callable[..., str]) -> None:
    """A replica that was forgotten in the file must not disappear (KAFKA-14121)."""
    kafka = serve()
    fewer = plan({FOO_0: (1, 2), FOO_1: (1, 2, 3, 4)})

    sentence = refuses(kafka, "reassign", "execute", "-f", fewer)

    assert sentence.startswith("the plan changes the number of replicas of foo-0 from 3 to 2, foo-1 from 3 to 4.")
    assert kafka.changes == []
    at(kafka, "reassign", "execute", "-f", fewer, "--allow-replication-factor-change")
    assert kafka.replicas[FOO_0] == (1, 2, 3)


def test_destination_without_room_is_refused(serve: Serve, plan: Callable[..., str]) -> None:
    """Before anything changes; the option says how to do it nevertheless."""
    kafka = serve(sizes={(FOO_0, 1): 5_000}, usable_bytes={5: 4_000})
    to_full = plan({FOO_0: (1, 2, 5)})

    assert refuses(kafka, "reassign", "execute", "-f", to_full).startswith(
        "broker 5 has 4,000 B of room but would receive 5,000 B."
    )
    assert kafka.changes == []
    at(kafka, "reassign", "execute", "-f", to_full, "--ignore-disk-space")
    assert kafka.changes


@pytest.mark.parametrize("owns_throttles", [False, True])
def test_dry_run_shows_everything_and_changes_nothing(
    serve: Serve, plan: Callable[..., str], owns_throttles: bool
) -> None:
    """Replicas, bytes, and either lists and rates or the throttle of the move."""
    kafka = serve(sizes={(FOO_0, 1): 5_000_000}, owns_throttles=owns_throttles)
    arguments = ("execute", "-f", plan({FOO_0: (1, 2, 5)}), "--throttle", "2MB", "--dry-run")

    shown = at(kafka, "reassign", *arguments)
    data = json.loads(at(kafka, "reassign", *arguments, "--json"))

    assert "foo-0: 1,2,3 -> 1,2,5, 5 MB to copy" in shown
    assert "broker 5 receiving: 5 MB" in shown
    assert ("topic foo: follower.replication.throttled.replicas=0:5" in shown) is not owns_throttles
    assert ("at most 2 MB/s at each broker while the move runs" in shown) is owns_throttles
    assert data["partitions"] == [{"partition": "foo-0", "from": [1, 2, 3], "to": [1, 2, 5], "copied_bytes": 5_000_000}]
    assert kafka.changes == []


def test_plan_that_changes_nothing_says_so(serve: Serve, plan: Callable[..., str]) -> None:
    """After what Kafka's tool prints; with a goal, nothing is measured and nothing steered."""
    kafka = serve(owns_throttles=True)
    same = ("reassign", "execute", "-f", plan({FOO_0: (1, 2, 3), FOO_1: (1, 2, 3)}))

    shown = at(kafka, *same, "--max-client-impact", "10%").splitlines()
    told = at(kafka, *same, "--dry-run").splitlines()

    assert shown[-2] == "Successfully started partition reassignments for foo-0,foo-1"
    assert told == [shown[-1]]
    assert shown[-1].startswith("There is nothing to move")
    assert json.loads(at(kafka, *same, "--json"))["moves_nothing"]
    assert json.loads(at(kafka, *same, "--json", "--dry-run"))["moves_nothing"]
    partly = ("reassign", "execute", "-f", plan({FOO_0: (1, 2, 3), FOO_1: (1, 2, 5)}), "--dry-run")
    assert not json.loads(at(kafka, *partly, "--json"))["moves_nothing"]
    lines = at(kafka, *partly).splitlines()
    assert "  foo-0: 1,2,3, unchanged" in lines
    assert "  foo-1: 1,2,3 -> 1,2,5" in lines


def test_progress_is_told_as_a_person_would(serve: Serve, plan: Callable[..., str]) -> None:
    """No names of facts; those are for --json."""
    facts = {"clients_p99_ms": 141.28, "bound_used_percent": 1444, "p99_ms_without_the_move": 192.53}

    assert fact_words(facts) == ["clients' p99 141 ms (193 ms without the move)", "1444 % of the bound"]
    assert fact_words({"deadline_in_s": 24.0, "needed_bytes_per_s": 2_000_000, "late_by_s": 3.0}) == [
        "deadline in 24 s",
        "the deadline needs 2 MB/s",
        "late by 3 s",
    ]
    assert fact_words({"deadline_in_s": -2.0}) == ["2 s after the deadline"]
    kafka = serve(owns_throttles=True, sizes={(FOO_0, 1): 4_000_000})
    begun_s = time.monotonic()
    kafka.on_list = lambda cluster: cluster.finish() if time.monotonic() - begun_s > 1 else None
    lines = at(kafka, "reassign", "execute", "-f", plan({FOO_0: (1, 2, 5)}), "--deadline", "3s").splitlines()
    assert any(", deadline in " in line for line in lines)
    assert not any("deadline in s" in line for line in lines)


def test_t44_verify_clears_throttles_only_when_nothing_moves(serve: Serve, plan: Callable[..., str]) -> None:
    """As the tool: in progress, then completed and cleared; with --preserve-throttles they stay."""
    kafka = serve()
    file = plan({FOO_0: (1, 2, 5)})
    at(kafka, "reassign", "execute", "-f", file, "--throttle", "1000000")

    during = at(kafka, "reassign", "verify", "-f", file)
    kafka.finish()
    kept = at(kafka, "reassign", "verify", "-f", file, "--preserve-throttles")
    rates = kafka.settings("leader.replication.throttled.rate")
    after = at(kafka, "reassign", "verify", "-f", file)

    assert during.splitlines() == [
        "Status of partition reassignment:",
        "Reassignment of partition foo-0 is still in progress.",
        "",
    ]
    assert rates == dict.fromkeys("1235", "1000000")
    assert kept == "Status of partition reassignment:\nReassignment of partition foo-0 is completed.\n\n"
    assert after.splitlines() == [
        "Status of partition reassignment:",
        "Reassignment of partition foo-0 is completed.",
        "",
        "Clearing broker-level throttles on brokers 1,2,3,4,5",
        "Clearing topic-level throttles on topic foo",
    ]
    assert kafka.settings("leader.replication.throttled.rate") == {}
    assert kafka.settings("follower.replication.throttled.replicas") == {}


def test_t44_move_whose_end_a_broker_does_not_know_yet_is_complete(serve: Serve, plan: Callable[..., str]) -> None:
    """The controller says that nothing moves, and the broker that is asked still has the replicas of before."""
    file = plan({FOO_0: (1, 2, 5)})
    for command in (("verify", "-f", file), ("execute", "-f", file, "--deadline", "3s")):
        kafka = serve(owns_throttles=True, sizes={(FOO_0, 1): 1_000})
        if command[0] == "verify":
            at(kafka, "reassign", "execute", "-f", file)
            kafka.finish()
            kafka.answers_late = 3
        else:
            kafka.on_list = end_late

        shown = at(kafka, "reassign", *command)

        assert "is completed." in shown or "complete after" in shown


def end_late(kafka: ScriptedKafka) -> None:
    """End what moves, and let the next answers not know it."""
    if kafka.moving:
        kafka.finish()
        kafka.answers_late = 3


def test_t44_another_order_of_replicas_is_not_complete(serve: Serve, plan: Callable[..., str]) -> None:
    """The comparison is of lists."""
    shown = at(serve(), "reassign", "verify", "-f", plan({FOO_0: (3, 2, 1)}))

    assert (
        "There is no active reassignment of partition foo-0, but replica set is 1,2,3 rather than 3,2,1."
        in shown.splitlines()
    )


def test_t57_verify_leaves_the_limits_of_others_where_moves_own_theirs(serve: Serve, plan: Callable[..., str]) -> None:
    """A rate and a wildcard that somebody set stay; Kafka's tool would remove them."""
    kafka = serve(owns_throttles=True)
    kafka.configs = {
        (BROKER, "4"): {"leader.replication.throttled.rate": "7"},
        (TOPIC, "foo"): {"follower.replication.throttled.replicas": "*"},
    }

    shown = at(kafka, "reassign", "verify", "-f", plan({FOO_0: (1, 2, 3)}))

    assert "Clearing" not in shown
    assert kafka.changes == []


def test_t45_cancel_keeps_the_throttle_of_what_still_moves(serve: Serve, plan: Callable[..., str]) -> None:
    """Two of three are cancelled; the third keeps its lists and rates, and a second cancel finds nothing."""
    kafka = serve(replicas={FOO_0: (1, 2), FOO_1: (1, 2), BAR_0: (2, 3)})
    at(kafka, "reassign", "execute", "-f", plan({FOO_1: (1, 4), FOO_0: (1, 5), BAR_0: (2, 5)}), "--throttle", "1")
    two = plan({FOO_1: (1, 4), FOO_0: (1, 5)})

    shown = at(kafka, "reassign", "cancel", "-f", two)
    again = at(kafka, "reassign", "cancel", "-f", two)

    assert shown == "Successfully cancelled partition reassignments for: foo-0,foo-1\n"
    assert again.startswith("None of the specified partition reassignments are active.\n")
    assert (kafka.replicas[FOO_0], kafka.replicas[FOO_1], kafka.replicas[BAR_0]) == ((1, 2), (1, 2), (2, 5, 3))
    assert kafka.settings("follower.replication.throttled.replicas") == {"bar": "0:5"}
    assert kafka.settings("leader.replication.throttled.rate") == dict.fromkeys("235", "1")


def test_t45_cancel_of_the_last_move_clears_throttles(serve: Serve, plan: Callable[..., str]) -> None:
    """Unless they are to be preserved."""
    kafka = serve()
    file = plan({FOO_0: (1, 2, 5)})
    at(kafka, "reassign", "execute", "-f", file, "--throttle", "1")
    at(kafka, "reassign", "cancel", "-f", file, "--preserve-throttles")
    assert kafka.settings("leader.replication.throttled.rate")

    at(kafka, "reassign", "cancel", "-f", file)

    assert kafka.settings("leader.replication.throttled.rate") == {}


def test_t46_pure_increase_is_cancelled(serve: Serve, plan: Callable[..., str]) -> None:
    """Nothing is removed by it, which made Kafka 4.0 overlook it."""
    kafka = serve(owns_throttles=True, replicas={FOO_0: (1, 2)})
    file = plan({FOO_0: (1, 2, 3)})
    at(kafka, "reassign", "execute", "-f", file, "--allow-replication-factor-change")

    assert "would cancel: foo-0" in at(kafka, "reassign", "cancel", "-f", file, "--dry-run")
    assert at(kafka, "reassign", "cancel", "-f", file) == "Successfully cancelled partition reassignment for: foo-0\n"
    assert kafka.replicas == {FOO_0: (1, 2)}


def test_t47_moves_between_directories(serve: Serve, plan: Callable[..., str]) -> None:
    """Started with a rate of their own, watched by verify, and cancelled by going back."""
    kafka = serve()
    file = plan({FOO_0: (1, 2, 3)}, foo_0=["/e", "any", "any"])

    shown = at(kafka, "reassign", "execute", "-f", file, "--replica-alter-log-dirs-throttle", "1")
    during = at(kafka, "reassign", "verify", "-f", file)

    assert shown.splitlines()[-3:] == [
        "The replica-alter-dir throttle limit was set to 1 B/s",
        "Successfully started partition reassignment for foo-0",
        "Successfully started moving log directory to /e for replica foo-0 with broker 1 ",
    ]
    assert "Reassignment of replica foo-0-1 is still in progress." in during
    assert kafka.settings("replica.alter.log.dirs.io.max.bytes.per.second") == {"1": "1"}
    at(kafka, "reassign", "cancel", "-f", file, "--preserve-throttles")
    assert kafka.log_dirs[FOO_0, 1] == ("/d", "")
    kafka.log_dirs[FOO_0, 1] = ("/e", "")
    assert "Reassignment of replica foo-0-1 completed successfully." in at(kafka, "reassign", "verify", "-f", file)


def test_t47_directory_of_a_replica_that_does_not_come_times_out(serve: Serve, plan: Callable[..., str]) -> None:
    """The new replica on broker 5 does not exist within 150 ms."""
    kafka = serve()

    file = plan({FOO_0: (1, 2, 5)}, foo_0=["any", "any", "/e"])
    shown = fails(kafka, "reassign", "execute", "-f", file, "--timeout", "150")

    assert shown.endswith("Timed out before log directory move could be started for: foo-0-5\n")
    assert kafka.changes == ["alter foo-0 to 1,2,5"]


def test_t47_syncline_has_one_directory_per_broker(serve: Serve, plan: Callable[..., str]) -> None:
    """The sentence says what to do."""
    kafka = serve(owns_throttles=True)

    sentence = refuses(kafka, "reassign", "execute", "-f", plan({FOO_0: (1, 2, 3)}, foo_0=["/e", "any", "any"]))

    assert sentence.startswith("replica foo-0-1 cannot be moved to /e: a Syncline broker has one log directory.")
    assert kafka.changes == []


def test_t47_plan_that_kafkas_tool_printed_names_the_directory_that_there_is(
    serve: Serve, plan: Callable[..., str]
) -> None:
    """Broker 5 gets a replica in its only directory: there is nothing to do about it."""
    kafka = serve(owns_throttles=True)

    at(kafka, "reassign", "execute", "-f", plan({FOO_0: (1, 2, 5)}, foo_0=["/d", "/d", "/d"]))

    assert kafka.changes == ["alter foo-0 to 1,2,5", "move m-1 at -1"]


def test_t48_throttle_of_a_refused_partition_is_removed_again(serve: Serve, plan: Callable[..., str]) -> None:
    """foo-0 moves, bar-0 is refused: lists and rates are those of foo-0 alone."""
    kafka = serve(
        replicas={FOO_0: (1, 2), BAR_0: (3,)}, refused={BAR_0: (ErrorCode.INVALID_REPLICA_ASSIGNMENT, "no such broker")}
    )

    shown = fails(kafka, "reassign", "execute", "-f", plan({FOO_0: (1, 5), BAR_0: (4,)}), "--throttle", "1000")

    assert "Error reassigning partition(s):\nbar-0: no such broker (INVALID_REPLICA_ASSIGNMENT)\n" in shown
    assert kafka.moving.keys() == {FOO_0}
    assert kafka.settings("leader.replication.throttled.replicas") == {"foo": "0:1,0:2"}
    assert kafka.settings("follower.replication.throttled.rate") == dict.fromkeys("125", "1000")


LIMITS = {
    (BROKER, "1"): {"leader.replication.throttled.rate": "77"},
    (TOPIC, "foo"): {"follower.replication.throttled.replicas": "*"},
}


def set_limits(kafka: ScriptedKafka) -> dict[tuple[int, str], dict[str, str]]:
    """Return what limits there are."""
    return {resource: values for resource, values in kafka.configs.items() if values}


def test_move_off_a_dead_broker_is_throttled_at_those_that_run(
    serve: Serve, plan: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Its death is the usual reason to move; Apache Kafka takes no rate for it (KAFKA-13392)."""
    kafka = serve(brokers=(1, 2, 4, 5))

    at(kafka, "reassign", "execute", "-f", plan({FOO_0: (1, 2, 5)}), "--throttle", "1MB")

    assert kafka.settings("leader.replication.throttled.rate") == dict.fromkeys("125", "1000000")
    assert kafka.moving.keys() == {FOO_0}
    assert "broker 3 is down, so it gets no rate." in capsys.readouterr().err


def test_refused_start_leaves_the_limits_of_before(serve: Serve, plan: Callable[..., str]) -> None:
    """The request fails as a whole after lists and rates were set; with a broker that just died it is not even sent."""
    refused = serve(refuses_moves=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    silent = serve()
    with socket.create_server(("127.0.0.1", 0)) as closed:
        silent.ports[3] = closed.getsockname()[1]
    arguments = ("reassign", "execute", "-f", plan({FOO_0: (1, 2, 5), BAR_0: (2, 3, 5)}), "--throttle", "1MB")

    for kafka in (refused, silent):
        kafka.configs = {resource: dict(values) for resource, values in LIMITS.items()}
        refuses(kafka, *arguments)

        assert "broker 1 leader.rate=1000000" in kafka.changes
        assert set_limits(kafka) == LIMITS
        assert kafka.moving == {}


def test_start_of_which_nobody_knows_keeps_its_throttle(serve: Serve, plan: Callable[..., str]) -> None:
    """The controller says that it timed out, and the moves have begun nevertheless."""
    kafka = serve(refuses_moves=ErrorCode.REQUEST_TIMED_OUT)

    def begin(cluster: ScriptedKafka) -> None:
        if cluster.changes:
            cluster.moving[FOO_0] = ((5,), (3,))
            cluster.replicas[FOO_0] = (1, 2, 5, 3)

    kafka.on_list = begin
    refuses(kafka, "reassign", "execute", "-f", plan({FOO_0: (1, 2, 5)}), "--throttle", "1MB")

    assert kafka.settings("follower.replication.throttled.replicas") == {"foo": "0:5"}
    assert kafka.settings("follower.replication.throttled.rate") == dict.fromkeys("1235", "1000000")


def test_limits_of_before_come_back_while_others_move(serve: Serve, plan: Callable[..., str]) -> None:
    """The move of foo ends while bar moves to broker 4: what somebody had set for foo and for broker 1 is set again."""
    kafka = serve(sizes={(FOO_0, 1): 1_000_000}, replicas={FOO_0: (1, 3), BAR_0: (2, 3)})
    at(kafka, "reassign", "execute", "-f", plan({BAR_0: (2, 4)}))
    kafka.configs = {resource: dict(values) for resource, values in LIMITS.items()}
    begun_s = time.monotonic()

    def finish(cluster: ScriptedKafka) -> None:
        if FOO_0 in cluster.moving and time.monotonic() - begun_s > 0.7:
            cluster.finish(FOO_0)

    kafka.on_list = finish
    at(kafka, "reassign", "execute", "-f", plan({FOO_0: (1, 5)}), "--deadline", "3s", "--additional")

    assert kafka.moving.keys() == {BAR_0}
    assert kafka.settings("follower.replication.throttled.replicas") == {"foo": "*", "bar": "0:4"}
    assert kafka.settings("leader.replication.throttled.rate")["1"] == "77"


def test_t48_move_that_owns_its_throttle_starts_whole_or_not_at_all(serve: Serve, plan: Callable[..., str]) -> None:
    """The refusal names the partition, and nothing else changed."""
    kafka = serve(owns_throttles=True, refused={BAR_0: (ErrorCode.INVALID_REPLICA_ASSIGNMENT, "no such broker")})

    file = plan({FOO_0: (1, 2, 5), BAR_0: (2, 3, 5)})
    shown = fails(kafka, "reassign", "execute", "-f", file, "--throttle", "1000")

    assert shown.endswith("Error reassigning partition(s):\nbar-0: no such broker (INVALID_REPLICA_ASSIGNMENT)\n")
    assert kafka.changes == []


def test_t41_repeated_file_without_a_throttle_keeps_it(serve: Serve, plan: Callable[..., str]) -> None:
    """The throttle that stays is told; it goes with a word, which Apache Kafka has no use for."""
    kafka = serve(owns_throttles=True)
    again = ("reassign", "execute", "-f", plan({FOO_0: (1, 2, 5), FOO_1: (4, 2, 3)}), "--additional")
    at(kafka, *again, "--throttle", "1MB")
    kafka.finish(FOO_1)

    shown = at(kafka, *again, "--ignore-disk-space")
    kept = kafka.moves["m-1"]["throttle"]
    removed = json.loads(at(kafka, *again, "--throttle", "none", "--json"))

    assert "The inter-broker throttle limit was set to 1000000 B/s" in shown
    assert kept == 1_000_000
    assert (removed["move"], removed["throttle_bytes_per_s"]) == ("m-1", None)
    assert kafka.moves["m-1"]["throttle"] == -1
    assert refuses(serve(), *again, "--throttle", "none").startswith("Apache Kafka's moves have no throttle of their")


def test_list_shows_what_moves(serve: Serve, plan: Callable[..., str]) -> None:
    """In the tool's words, or as JSON with the move."""
    kafka = serve(owns_throttles=True)
    assert at(kafka, "reassign", "list") == "No partition reassignments found.\n"
    at(kafka, "reassign", "execute", "-f", plan({FOO_0: (1, 2, 5)}))

    assert at(kafka, "reassign", "list").splitlines() == [
        "Current partition reassignments:",
        "foo-0: replicas: 1,2,5,3. adding: 5. removing: 3.",
    ]
    assert json.loads(at(kafka, "reassign", "list", "--json"))[0]["move"] == "m-1"


def test_deadline_is_kept_by_changing_the_rate(serve: Serve, plan: Callable[..., str]) -> None:
    """A copy that gets half of its rate: the rate rises, until the move is over; each look is a line."""
    kafka = serve(owns_throttles=True, sizes={(FOO_0, 1): 4_000_000})
    copied_s = 0.0

    def copy(cluster: ScriptedKafka) -> None:
        nonlocal copied_s
        now_s, last_s = time.monotonic(), copied_s
        copied_s = now_s
        if FOO_0 not in cluster.moving or not last_s:
            return
        passed = cluster.moves["m-1"]["throttle"] * 0.5 * (now_s - last_s)
        cluster.sizes[FOO_0, 5] = min(cluster.sizes.get((FOO_0, 5), 0) + round(passed), 4_000_000)
        if cluster.sizes[FOO_0, 5] >= 4_000_000:
            cluster.finish()

    kafka.on_list = copy
    shown = at(kafka, "reassign", "execute", "-f", plan({FOO_0: (1, 2, 5)}), "--deadline", "3s", "--json")
    facts = [json.loads(line) for line in shown.splitlines()]
    rates = [row["rate_bytes_per_s"] for row in facts if "rate_bytes_per_s" in row]

    assert facts[-1]["ended"] == "complete"
    assert rates[-1] > 1.1 * rates[0]
    assert len([change for change in kafka.changes if change.startswith("move m-1 at")]) >= 3
    assert kafka.changes[1].endswith(" deadline")
    assert kafka.moves == {}


def test_deadline_that_the_links_cannot_keep_is_refused_beforehand(serve: Serve, plan: Callable[..., str]) -> None:
    """4 MB in 2 s over 1 MB/s: the sentence says what is needed, and what would be possible."""
    kafka = serve(owns_throttles=True, sizes={(FOO_0, 1): 4_000_000})
    arguments = ("execute", "-f", plan({FOO_0: (1, 2, 5)}), "--deadline", "3s", "--link-capacity", "1MB/s")

    sentence = refuses(kafka, "reassign", *arguments)

    assert sentence.startswith("No rate meets both goals: broker 1 would have to send")
    assert "The move is possible in 4 s or more" in sentence
    assert kafka.changes == []


def test_deadline_without_time_to_copy_is_refused_beforehand(serve: Serve, plan: Callable[..., str]) -> None:
    """The last second is for replicas to join, so one second is none; without links, too."""
    kafka = serve(owns_throttles=True, sizes={(FOO_0, 1): 4_000_000})

    sentence = refuses(kafka, "reassign", "execute", "-f", plan({FOO_0: (1, 2, 5)}), "--deadline", "1s")

    assert sentence.startswith("the deadline leaves no time to copy anything")
    assert sentence.endswith("Give 3s or more.")
    assert kafka.changes == []


def test_move_that_cannot_be_in_time_says_by_how_much_it_is_late(serve: Serve, plan: Callable[..., str]) -> None:
    """4 MB of which a thousand bytes pass per look: it was possible by the links, and still it is late."""
    kafka = serve(owns_throttles=True, sizes={(FOO_0, 1): 4_000_000})
    begun_s = time.monotonic()

    def crawl(cluster: ScriptedKafka) -> None:
        cluster.sizes[FOO_0, 5] = cluster.sizes.get((FOO_0, 5), 0) + 1000
        if time.monotonic() - begun_s > 6.5:
            cluster.finish()

    kafka.on_list = crawl
    # Of these seconds 1.4 are needed, and one is for replicas to join: a slow start is no reason to refuse.
    arguments = ("-f", plan({FOO_0: (1, 2, 5)}), "--deadline", "6s", "--link-capacity", "3MB/s", "--json")
    shown = at(kafka, "reassign", "execute", *arguments)
    late = [row["late_by_s"] for row in map(json.loads, shown.splitlines()) if "late_by_s" in row]

    assert late
    assert min(late) >= 1


def test_progress_counts_what_is_complete(serve: Serve, plan: Callable[..., str]) -> None:
    """Of two partitions one ends early; what is done does not become less, nor what there is to do."""
    kafka = serve(owns_throttles=True, sizes={(FOO_0, 1): 1_000_000, (FOO_1, 1): 3_000_000})
    begun_s = time.monotonic()

    def copy(cluster: ScriptedKafka) -> None:
        passed_s = time.monotonic() - begun_s
        if passed_s > 0.5:
            cluster.sizes |= {(FOO_0, 5): 1_000_000, (FOO_1, 5): round(1_000_000 * passed_s)}
        if passed_s > 1.2 and FOO_0 in cluster.moving:
            cluster.finish(FOO_0)
        if passed_s > 2:
            cluster.finish()

    kafka.on_list = copy
    arguments = ("-f", plan({FOO_0: (1, 2, 5), FOO_1: (1, 2, 5)}), "--deadline", "3s", "--json")
    rows = [json.loads(line) for line in at(kafka, "reassign", "execute", *arguments).splitlines()]
    done = [row["done_bytes"] for row in rows if "done_bytes" in row]

    assert done == sorted(done)
    assert done[-1] > 2_000_000
    assert {row["total_bytes"] for row in rows if "total_bytes" in row} == {4_000_000}


def test_two_goals_at_once_are_refused(serve: Serve, plan: Callable[..., str]) -> None:
    """A move is controlled by one of them."""
    sentence = refuses(
        serve(), "reassign", "execute", "-f", plan({FOO_0: (1, 2, 5)}), "--deadline", "3s", "--max-client-impact", "10%"
    )

    assert sentence == "--deadline and --max-client-impact both control the rate: give one of them."
