"""`syncline reassign plan`, `status` and `resume`."""

import json
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from syncline.model.ids import TopicPartition
from syncline.reassign.throttle_state import Effect
from tests.cli.scripted_kafka import BROKER, TOPIC, ScriptedKafka, Serve, at, fails, refuses
from tests.cli.terminal import ENVIRONMENT, command
from tests.patience import PATIENCE_S, until

FOO_0, FOO_1 = TopicPartition("foo", 0), TopicPartition("foo", 1)
Plan = Callable[..., str]
SIZES = {(FOO_0, 1): 4_000_000, (FOO_1, 1): 2_000_000}
# Two partitions of 6 MB together go to broker 5.
TARGETS = {FOO_0: (1, 2, 5), FOO_1: (1, 2, 5)}
LIST = "follower.replication.throttled.replicas"
QUICK = ("--measure", "0.1")


def growing(bytes_per_s: float) -> Callable[[ScriptedKafka], None]:
    """Return what lets the leaders' logs grow from look to look."""
    begun_s = time.monotonic()

    def grow(kafka: ScriptedKafka) -> None:
        for (key, broker), size in SIZES.items():
            kafka.sizes[key, broker] = size + round((time.monotonic() - begun_s) * bytes_per_s)

    return grow


def test_plan_tells_bytes_ratio_and_the_time_at_a_rate(serve: Serve, plan: Plan) -> None:
    """6 MB are sent by broker 1 and received by 5, and nothing is written: 3 s at 2 MB/s."""
    kafka = serve(sizes=dict(SIZES), usable_bytes={5: 10_000_000})
    arguments = ("reassign", "plan", "-f", plan(TARGETS), "--throttle", "2MB/s", *QUICK)

    facts = json.loads(at(kafka, *arguments, "--json"))

    assert (facts["new_replicas"], facts["copied_bytes"]) == (2, 6_000_000)
    assert facts["move_ratio"] == pytest.approx(2 / 9)
    assert facts["time_s"] == 3.0
    assert {(part["broker"], part["role"]): part["copied_bytes"] for part in facts["parts"]} == {
        (1, "sending"): 6_000_000,
        (5, "receiving"): 6_000_000,
    }
    assert next(part for part in facts["parts"] if part["broker"] == 5)["room_after_bytes"] == 4_000_000
    shown = at(kafka, *arguments)
    assert "2 partitions, 2 new replicas, MoveRatio 0.222, 6 MB to copy" in shown
    assert "at 2 MB/s the move takes 3 s; the bottleneck is" in shown
    assert kafka.changes == []


def test_plan_measures_how_fast_logs_grow(serve: Serve, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """1 MB/s each: broker 5 keeps up with 2, the leader of Kafka with three followers of each partition.

    From look to look a second passes on the command's clock, and a megabyte is written.
    """
    looks = 0

    def grow(cluster: ScriptedKafka) -> None:
        nonlocal looks
        looks += 1
        cluster.sizes |= {replica: size + 1_000_000 * looks for replica, size in SIZES.items()}

    clock = SimpleNamespace(monotonic=time.monotonic, sleep=time.sleep, monotonic_ns=lambda: looks * 1_000_000_000)
    monkeypatch.setattr("syncline.cli.reassign.cluster_reading.time", clock)
    kafka = serve(sizes=dict(SIZES), on_list=grow)

    facts = json.loads(at(kafka, "reassign", "plan", "-f", plan(TARGETS), "--throttle", "1MB", "--json", *QUICK))
    keep_up = {part["role"]: part["keep_up_bytes_per_s"] for part in facts["parts"]}

    assert keep_up["receiving"] == pytest.approx(2e6)
    assert keep_up["sending"] == pytest.approx(3 * keep_up["receiving"], rel=0.01)
    assert facts["never_ends"]


def test_t59_plan_without_a_rate_names_both_ways_out_and_exits_with_2(serve: Serve, plan: Plan) -> None:
    """6 MB in 2 s while clients keep 60 % of 5 MB/s: 3 s, or 40 %."""
    kafka = serve(sizes=dict(SIZES))
    arguments = ("reassign", "plan", "-f", plan(TARGETS), "--link-capacity", "5MB", "--keep-clients", "60", *QUICK)

    shown = fails(kafka, *arguments, "--deadline", "2s", code=2)
    possible = json.loads(at(kafka, *arguments, "--deadline", "4s", "--json"))

    assert "The move is possible in 3 s or more while clients keep 60 %." in shown
    assert "If clients keep at most 40 %, the move is possible in 2 s." in shown
    assert possible["is_feasible"]
    assert (possible["min_bytes_per_s"], possible["max_bytes_per_s"]) == (1_500_000, 2_000_000)
    assert possible["rate_bytes_per_s"] == 1_650_000


def test_plan_refuses_a_share_of_unknown_links(serve: Serve, plan: Plan) -> None:
    """It cannot be measured without loading the links."""
    sentence = refuses(serve(), "reassign", "plan", "-f", plan(TARGETS), "--max-client-impact", "10%")

    assert sentence == "a share of the links can only be computed from their capacity: give --link-capacity B/S."


def test_status_shows_bars_rates_and_the_end(serve: Serve, plan: Plan) -> None:
    """A move of Syncline with a throttle: what is there of each replica, and when it ends at this rate."""
    kafka = serve(sizes=dict(SIZES), owns_throttles=True)
    at(kafka, "reassign", "execute", "-f", plan(TARGETS), "--throttle", "1MB")
    kafka.sizes |= {(FOO_0, 5): 1_000_000, (FOO_1, 5): 0}

    shown = at(kafka, "reassign", "status")
    facts = json.loads(at(kafka, "reassign", "status", "--json"))

    assert "move m-1 (plan.json): 1 MB/s" in shown
    assert "foo-0 -> 5 |███████▌                      |  25.0 % of    4 MB  copying" in shown
    assert "foo-1 -> 5 |                              |   0.0 % of    2 MB  waiting" in shown
    states = {(row["topic"], row["partition"]): row["state"] for row in facts["replicas"]}
    assert states == {("foo", 0): "copying", ("foo", 1): "waiting"}
    # Of five megabytes at one a second, none comes during the second in which `status` looks.
    assert 5.0 * 0.9 <= facts["eta_s"] <= (5.0 + 1.0) * 1.1
    assert facts["brokers"][-1]["quota_bytes_per_s"] == 1_000_000


@pytest.mark.parametrize(
    ("rate", "nothing_moved_ms", "measured", "causes"),
    [
        ("3MB", None, 0.0, {"not-the-throttle"}),
        ("100kB", None, None, set()),
        ("100kB", 1_000, None, set()),
        ("100kB", 30_000, 0.0, {"not-the-throttle"}),
    ],
)
def test_status_tells_a_rate_of_nothing_only_where_something_should_have_come(
    serve: Serve, plan: Plan, rate: str, nothing_moved_ms: int | None, measured: float | None, causes: set[str]
) -> None:
    """Nothing comes in a second. At 3 MB/s that is no chance; at 100 kB/s a batch may take ten times as long.

    Brokers of Syncline say for how long nothing came, which counts as well.
    """
    kafka = serve(sizes=dict(SIZES), owns_throttles=True, nothing_moved_ms=nothing_moved_ms)
    at(kafka, "reassign", "execute", "-f", plan(TARGETS), "--throttle", rate)

    facts = json.loads(at(kafka, "reassign", "status", "--json"))

    assert [part["measured_bytes_per_s"] for part in facts["brokers"]] == [measured, measured]
    assert {finding["cause"] for finding in facts["findings"]} == causes


def test_status_sees_batches_that_come_twice_a_second(serve: Serve, plan: Plan) -> None:
    """A throttle of 2 MB/s lets a batch of 1 MB pass each half a second: the rate is about that of the throttle."""
    kafka = serve(sizes={(FOO_0, 1): 40_000_000}, owns_throttles=True)
    at(kafka, "reassign", "execute", "-f", plan({FOO_0: (1, 2, 5)}), "--throttle", "2MB")
    begun_s = time.monotonic()

    def copy(cluster: ScriptedKafka) -> None:
        cluster.sizes[FOO_0, 5] = 1_000_000 * int((time.monotonic() - begun_s) / 0.5)

    kafka.on_list = copy
    facts = json.loads(at(kafka, "reassign", "status", "--json"))

    assert all(0.9e6 <= part["measured_bytes_per_s"] <= 3.2e6 for part in facts["brokers"])


def test_watch_shows_a_rate_over_several_looks(serve: Serve, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch comes between every fourth look and the next: the looks without one show what came before."""
    monkeypatch.setattr("syncline.cli.reassign.status.WATCH_S", 0.1)
    kafka = serve(sizes={(FOO_0, 1): 40_000_000}, owns_throttles=True)
    at(kafka, "reassign", "execute", "-f", plan({FOO_0: (1, 2, 5)}), "--throttle", "2MB")
    looks = 0

    def copy(cluster: ScriptedKafka) -> None:
        nonlocal looks
        looks += 1
        cluster.sizes[FOO_0, 5] = 1_000_000 * (looks // 4)
        if looks > 12:
            cluster.finish()

    kafka.on_list = copy
    facts = [json.loads(line) for line in at(kafka, "reassign", "status", "--watch", "--json").splitlines()]
    rates = [each["brokers"][0]["measured_bytes_per_s"] for each in facts if each["brokers"]]

    assert len(rates) == 11
    assert rates[0] is None
    assert min(rates[2:]) > 0


def test_watch_does_not_take_what_begins_for_a_loss(serve: Serve, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second partition begins to move: more remains than before, and the first one's rate is measured anew."""
    monkeypatch.setattr("syncline.cli.reassign.status.WATCH_S", 0.1)
    kafka = serve(sizes={(FOO_0, 1): 40_000_000, (FOO_1, 1): 90_000_000}, owns_throttles=True)
    at(kafka, "reassign", "execute", "-f", plan({FOO_0: (1, 2, 5)}), "--throttle", "2MB")
    looks = 0

    def copy(cluster: ScriptedKafka) -> None:
        nonlocal looks
        looks += 1
        cluster.sizes[FOO_0, 5] = 1_000_000 * looks
        if looks == 4:
            cluster.original[FOO_1], cluster.moving[FOO_1] = cluster.replicas[FOO_1], ((5,), ())
            cluster.replicas[FOO_1] = (*cluster.replicas[FOO_1], 5)
        if looks > 7:
            cluster.finish()

    kafka.on_list = copy
    facts = [json.loads(line) for line in at(kafka, "reassign", "status", "--watch", "--json").splitlines()]
    rates = [part["measured_bytes_per_s"] for each in facts[4:] for part in each["brokers"] if part["broker"] == 5]

    assert rates
    assert min(rates) > 0


def test_status_without_moves_says_so(serve: Serve) -> None:
    """And ends, with --watch too."""
    assert at(serve(), "reassign", "status") == "No partition reassignments found.\n"
    assert at(serve(), "reassign", "status", "--watch").endswith("No partition reassignments found.\n")


def test_status_says_what_holds_a_move_back(serve: Serve, plan: Plan) -> None:
    """Kafka's lists and a rate of 100 kB/s, while the logs grow by 1 MB/s each: it never ends."""
    kafka = serve(sizes=dict(SIZES))
    at(kafka, "reassign", "execute", "-f", plan(TARGETS), "--throttle", "100kB")
    kafka.on_list = growing(1e6)

    facts = json.loads(at(kafka, "reassign", "status", "--json"))

    sentences = [finding["sentence"] for finding in facts["findings"]]
    assert any(text.startswith("broker 5 needs more than") and "keep-up traffic alone" in text for text in sentences)


def test_resume_takes_the_goal_from_the_cluster(serve: Serve, plan: Plan) -> None:
    """The command that began it is gone; the deadline is the move's, and the move ends with exit code 0."""
    kafka = serve(sizes=dict(SIZES), owns_throttles=True)
    at(kafka, "reassign", "execute", "-f", plan(TARGETS), "--throttle", "1MB")
    kafka.moves["m-1"] |= {"control": "deadline", "deadline_ms": time.time_ns() // 1_000_000 + 2_500}
    begun_s = time.monotonic()

    def finish(cluster: ScriptedKafka) -> None:
        if time.monotonic() - begun_s > 1:
            cluster.finish()

    kafka.on_list = finish
    shown = at(kafka, "reassign", "resume")

    assert shown.splitlines()[-1].startswith("complete after")
    assert any(change.endswith(" deadline") for change in kafka.changes)


def test_resume_of_a_move_without_a_goal_asks_for_one(serve: Serve, plan: Plan) -> None:
    """And with nothing that moves, it says so; an unknown move is named."""
    kafka = serve(owns_throttles=True)
    assert refuses(kafka, "reassign", "resume") == "No partition reassignments found."
    at(kafka, "reassign", "execute", "-f", plan(TARGETS), "--throttle", "1MB")

    assert refuses(kafka, "reassign", "resume").startswith("move m-1 has no goal to adapt its rate to")
    assert refuses(kafka, "reassign", "resume", "m-7") == "move 'm-7' is not running. Running moves: m-1."


def test_resume_at_kafka_changes_the_rates_of_all_that_moves(serve: Serve, plan: Plan) -> None:
    """Kafka remembers no goal, so it is given."""
    kafka = serve(sizes=dict(SIZES))
    at(kafka, "reassign", "execute", "-f", plan(TARGETS), "--throttle", "1000")
    assert refuses(kafka, "reassign", "resume").startswith("what moves has no goal")
    assert refuses(kafka, "reassign", "resume", "m-1").startswith(
        "there is no move 'm-1': Apache Kafka does not keep moves apart"
    )
    begun_s = time.monotonic()

    def finish(cluster: ScriptedKafka) -> None:
        if time.monotonic() - begun_s > 0.5:
            cluster.finish()

    kafka.on_list = finish
    at(kafka, "reassign", "resume", "--deadline", "3s")

    rates = [int(change.rpartition("=")[2]) for change in kafka.changes if change.startswith("broker 5 follower.rate=")]
    assert rates[0] == 1000
    assert rates[1] > 1_000_000
    assert kafka.settings("follower.replication.throttled.rate") == {}


def test_source_that_dies_at_kafka_gets_the_rate_when_it_returns(serve: Serve, plan: Plan) -> None:
    """While it is down the others' rates are adapted nevertheless."""
    kafka = serve(sizes=dict(SIZES))
    at(kafka, "reassign", "execute", "-f", plan(TARGETS), "--throttle", "1000")
    kafka.brokers = (1, 2, 4, 5)
    begun_s = time.monotonic()
    while_down: list[dict[str, str]] = []
    in_the_end: list[dict[str, str]] = []

    def watch(cluster: ScriptedKafka) -> None:
        passed_s = time.monotonic() - begun_s
        rates = cluster.settings("leader.replication.throttled.rate")
        adapted = {broker for broker, rate in rates.items() if rate != "1000"} if passed_s < PATIENCE_S else {"3", "5"}
        if 3 not in cluster.brokers and "5" in adapted:
            while_down.append(rates)
            cluster.brokers = (1, 2, 3, 4, 5)
        elif 3 in cluster.brokers and "3" in adapted and cluster.moving:
            in_the_end.append(rates)
            cluster.finish()

    kafka.on_list = watch
    at(kafka, "reassign", "resume", "--deadline", "3s")

    assert int(while_down[0]["5"]) > 1_000_000
    assert while_down[0]["3"] == "1000"
    assert int(in_the_end[0]["3"]) > 1_000_000


def test_deadline_at_kafka_leaves_the_limits_of_before(serve: Serve, plan: Plan) -> None:
    """The command that set the throttle is still there at the end, so it puts back what was set."""
    kafka = serve(sizes=dict(SIZES))
    before = {(BROKER, "5"): {"follower.replication.throttled.rate": "77"}, (TOPIC, "foo"): {LIST: "*"}}
    kafka.configs = {resource: dict(values) for resource, values in before.items()}
    begun_s = time.monotonic()

    def finish(cluster: ScriptedKafka) -> None:
        if cluster.moving and time.monotonic() - begun_s > 0.7:
            cluster.finish()

    kafka.on_list = finish
    at(kafka, "reassign", "execute", "-f", plan(TARGETS), "--deadline", "3s")

    assert "broker 1 leader.rate=" in " ".join(kafka.changes)
    assert {resource: values for resource, values in kafka.configs.items() if values} == before


@pytest.fixture
def limited(serve: Serve) -> ScriptedKafka:
    """A cluster in which broker 1 has a rate, and a list names what it sends of foo-0."""
    kafka = serve()
    kafka.configs = {
        (BROKER, "1"): {"leader.replication.throttled.rate": "1000"},
        (TOPIC, "foo"): {"leader.replication.throttled.replicas": "0:1"},
    }
    return kafka


def test_throttle_show_lists_what_is_set_and_what_limits_nothing(limited: ScriptedKafka) -> None:
    """Rates, lists, and a note of each that may have been forgotten."""
    shown = at(limited, "throttle", "show")
    facts = json.loads(at(limited, "throttle", "show", "--json"))

    assert (
        "broker 1 has leader.replication.throttled.rate=1000 (broker), but nothing is moving: `syncline "
        "throttle clear" in shown
    )
    assert facts["rates"] == [
        {"broker": 1, "name": "leader.replication.throttled.rate", "bytes_per_s": 1000, "source": "broker"}
    ]
    assert facts["lists"] == [{"topic": "foo", "name": "leader.replication.throttled.replicas", "replicas": "0:1"}]
    assert len(facts["limit_nothing"]) == 2


def test_throttle_show_names_the_mode_and_the_throttles_of_moves(serve: Serve, plan: Plan) -> None:
    """Which rule is in force is visible, and that a move's throttle ends with it."""
    kafka = serve(owns_throttles=True, brokers=(1, 2, 3, 4, 5))
    kafka.configs = {(BROKER, "1"): {"replication.quota.mode": "kafka"}}
    assert at(kafka, "throttle", "show").splitlines()[0] == "no throttle is set"
    at(kafka, "reassign", "execute", "-f", plan(TARGETS), "--throttle", "1MB")

    shown = at(kafka, "throttle", "show")

    assert "move m-1 (plan.json): 1 MB/s at each broker while the move runs" in shown
    assert "broker 1 enforces rates as Kafka does, on average over some seconds (replication.quota.mode=kafka)" in shown
    assert "brokers 2,3,4,5 enforce rates strictly (replication.quota.mode=strict)" in shown


def test_throttle_explain_names_what_is_missing(limited: ScriptedKafka) -> None:
    """Leader 1 is in sync with all: its bytes count; broker 2 receives without any throttle."""
    rows = json.loads(at(limited, "throttle", "explain", "foo:0", "--json"))

    assert {(row["broker"], row["role"]): row["effect"] for row in rows} == {
        (1, "sending"): "counted",
        (2, "receiving"): "free",
        (3, "receiving"): "free",
    }
    other = json.loads(at(limited, "throttle", "explain", "foo:1", "--json"))
    assert other[0]["missing"] == "leader.replication.throttled.replicas of topic foo does not name 1:1"
    table = at(limited, "throttle", "explain")
    assert "PARTITION" in table
    assert {line.partition(":")[0] for line in table.partition("\n\n")[2].splitlines()} <= {
        effect.value for effect in Effect
    }
    assert "counted: the replica is in sync and so never held back" in table
    assert refuses(limited, "throttle", "explain", "quux") == "there is no topic 'quux'."


def test_throttle_set_and_clear_change_lists_before_rates(serve: Serve) -> None:
    """For brokers that return empty: a wildcard and a rate on all; --dry-run only tells."""
    kafka = serve(brokers=(1, 2, 3, 4))
    arguments = ("--topic", "foo", "--brokers", "3,4", "--role", "receiving")

    told = at(kafka, "throttle", "set", *arguments, "--rate", "5MB", "--dry-run")
    assert kafka.changes == []
    at(kafka, "throttle", "set", *arguments, "--rate", "5MB")
    at(kafka, "throttle", "clear", *arguments)

    assert "broker 3: follower.replication.throttled.rate would be set to 5000000" in told
    assert kafka.changes == [
        "topic foo follower.replicas=*",
        "broker 3 follower.rate=5000000",
        "broker 4 follower.rate=5000000",
        "topic foo follower.replicas",
        "broker 3 follower.rate",
        "broker 4 follower.rate",
    ]


def test_throttle_needs_to_know_what(serve: Serve) -> None:
    """Sentences that say how to go on."""
    kafka = serve()
    assert refuses(kafka, "throttle", "set").startswith("nothing to set")
    assert refuses(kafka, "throttle", "clear").startswith("nothing to clear")
    assert refuses(kafka, "throttle", "set", "--rate", "5").startswith("--rate and --brokers belong together")
    assert refuses(kafka, "throttle", "set", "--rate", "x", "--brokers", "all").startswith("--rate takes bytes")
    assert refuses(kafka, "throttle", "clear", "--topic", "quux").startswith("there is no topic 'quux'.")


def test_t39_rate_of_a_broker_that_is_down(serve: Serve) -> None:
    """Syncline takes it for the broker's next start; Apache Kafka takes it at that broker only."""
    kafka, syncline = serve(brokers=(1, 2, 4)), serve(brokers=(1, 2, 4), owns_throttles=True)
    arguments = ("throttle", "set", "--rate", "5MB", "--brokers", "3", "--role", "sending")

    assert refuses(kafka, *arguments).startswith("broker 3 is down, and in Apache Kafka only that broker can")
    at(syncline, *arguments)
    assert syncline.changes == ["broker 3 leader.rate=5000000"]


def test_t39_rate_of_a_broker_that_is_down_is_shown_and_cleared(serve: Serve) -> None:
    """Otherwise it would be found when the broker starts, throttled; what nobody tells is said."""
    rate = {(BROKER, "3"): {"leader.replication.throttled.rate": "100000"}}
    telling = serve(brokers=(1, 2, 4), owns_throttles=True, describes_others=True, configs=dict(rate))
    silent = serve(brokers=(1, 2, 4), owns_throttles=True, configs=dict(rate))

    shown = json.loads(at(telling, "throttle", "show", "--json"))
    assert [(row["broker"], row["bytes_per_s"]) for row in shown["rates"]] == [(3, 100_000)]
    assert "broker 3 is down, and no other broker reports its rates" in at(silent, "throttle", "show")
    at(silent, "throttle", "clear", "--brokers", "all", "--role", "sending")
    assert silent.configs[BROKER, "3"] == {}


@pytest.mark.parametrize("option", [(), ("--dry-run",)])
def test_throttle_set_with_a_broker_that_does_not_exist_changes_nothing(serve: Serve, option: tuple[str, ...]) -> None:
    """All is checked first: the list of the topic and the rate of broker 1 are not set either."""
    kafka = serve(owns_throttles=True)
    arguments = ("throttle", "set", "--rate", "1MB", "--brokers", "1,9", "--topic", "foo")

    assert refuses(kafka, *arguments, *option).startswith("there is no broker 9; the cluster has 1,2,3,4,5.")
    assert kafka.changes == []


def test_t39_rate_of_a_broker_that_has_just_died(serve: Serve) -> None:
    """The cluster still names it, and nobody listens there."""
    kafka, syncline = serve(), serve(owns_throttles=True)
    with socket.create_server(("127.0.0.1", 0)) as closed:
        kafka.ports[3] = syncline.ports[3] = closed.getsockname()[1]
    arguments = ("throttle", "set", "--rate", "5MB", "--brokers", "3", "--role", "sending")

    assert refuses(kafka, *arguments).startswith("broker 3 is down, and in Apache Kafka only that broker can")
    at(syncline, *arguments)
    assert syncline.changes == ["broker 3 leader.rate=5000000"]


@pytest.mark.parametrize("owns_throttles", [True, False])
def test_resume_that_cannot_measure_clients_puts_the_rate_back(
    serve: Serve, plan: Plan, capsys: pytest.CaptureFixture[str], owns_throttles: bool
) -> None:
    """The probe's topic cannot be created: the move does not stay at the lowest rate, and the rate is told."""
    kafka = serve(sizes=dict(SIZES), owns_throttles=owns_throttles)
    at(kafka, "reassign", "execute", "-f", plan(TARGETS), "--throttle", "20MB")
    kafka.changes.clear()

    refuses(kafka, "reassign", "resume", "--max-client-impact", "10%")

    assert any("50000" in change for change in kafka.changes)
    if owns_throttles:
        assert (kafka.moves["m-1"]["throttle"], kafka.moves["m-1"]["control"]) == (20_000_000, "")
    else:
        rates = kafka.settings("leader.replication.throttled.rate")
        assert rates == dict.fromkeys("1235", "20000000") == kafka.settings("follower.replication.throttled.rate")
    assert "The move continues at 20 MB/s, as before." in capsys.readouterr().err


@pytest.mark.process
def test_resume_that_is_interrupted_while_it_measures_puts_the_rate_back(serve: Serve, plan: Plan) -> None:
    """The seconds before the first look are no exception, and the exit code is that of Ctrl-C."""
    kafka = serve(sizes=dict(SIZES), owns_throttles=True)
    at(kafka, "reassign", "execute", "-f", plan(TARGETS), "--throttle", "20MB")
    arguments = ("reassign", "resume", "--max-client-impact", "10%", "--bootstrap-server", kafka.bootstrap)
    process = subprocess.Popen(command(*arguments), env=ENVIRONMENT, stderr=subprocess.PIPE, text=True)
    until(lambda: kafka.moves["m-1"]["throttle"] == 50_000)

    process.send_signal(signal.SIGINT)
    _, shown = process.communicate(timeout=20)

    assert process.returncode == 128 + signal.SIGINT
    assert kafka.moves["m-1"]["throttle"] == 20_000_000
    assert "The move continues at 20 MB/s, as before." in shown
    assert "Traceback" not in shown
