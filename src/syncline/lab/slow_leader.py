"""A leader with slow reads drives its followers out of the ISR, and then no replica can take over: KIP-501.

The followers fetch in time and wait for the leader's disk. Without KIP-501 the
leader counts that as their lag, and is soon alone in the ISR. Solution 1 protects
followers that wait; solution 2 hands leadership to one of them. Meanwhile a real
client writes with acks=all and records when its writes are acknowledged.
"""

from collections.abc import Callable
from typing import Final

from syncline.lab.availability import SteadyProducer
from syncline.lab.scenario import Scenario
from syncline.lab.stage import TOPIC, Outcome, Stage

L: Final = 1
F: Final = 2
G: Final = 3
CONTROLLER: Final = 4
OFF: Final = "off"
PROTECT: Final = "solution-1"
RELINQUISH: Final = "solutions-1-and-2"
LAG_MS: Final = 2_000
READ_MS: Final = 30_000
WARM_UP: Final = 10
OFFLINE_S: Final = 1.5

CONFIG: Final = {
    "eligible.leader.replicas.enable": "false",
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "60000",
    "replica.fetch.wait.max.ms": "200",
    "replica.lag.time.max.ms": str(LAG_MS),
    "replica.lag.check.interval.ms": "200",
    "replica.socket.timeout.ms": "120000",
    "replica.fetch.backoff.ms": "50",
    "follower.fetch.process.time.max.ms": "500",
    "leader.relinquish.min.tenure.ms": "0",
}


def _config_of(mode: str) -> dict[str, str]:
    return {
        "follower.fetch.pending.reads.insync.enable": "false" if mode == OFF else "true",
        "leader.relinquish.enable": "true" if mode == RELINQUISH else "false",
    }


def _play(stage: Stage, mode: str) -> Outcome:
    replicas = (L, F, G)
    followers = (F, G)

    def leader() -> int | None:
        return next((each for each in followers if stage.replicas[each].leads), None)

    with stage.step("L leads; F and G follow, all in sync."):
        stage.topic(replicas, ask=CONTROLLER)
    bootstrap = ",".join(f"127.0.0.1:{process.port}" for process in stage.cluster.processes.values())
    client = SteadyProducer(bootstrap, TOPIC)
    try:
        return _with_client(stage, mode, client, leader)
    finally:
        # An interrupted run does not wait for acknowledgements that cannot arrive.
        client.give_up()


def _with_client(stage: Stage, mode: str, client: SteadyProducer, leader: Callable[[], int | None]) -> Outcome:
    replicas = (L, F, G)
    with stage.step("A client writes steadily with acks=all, and every write is acknowledged."):
        stage.until(lambda: len(client.acknowledged) >= WARM_UP, "the client gets an acknowledgement")
    slow_s = client.now_s
    text = {
        OFF: "F and G wait for it, count as lagging, and leave the ISR.",
        PROTECT: "F and G wait for it, longer than they may lag, but stay in the ISR, because they fetched in time.",
        RELINQUISH: "F and G wait for it, and L hands the partition over. If L itself hangs, it leaves the ISR.",
    }[mode]
    with stage.step(f"L's disk takes {READ_MS / 1_000:.0f} s for a read. {text}") as step:
        stage.begin_fault(
            "disk-slow", (L,), L, "reads are slow", topic=TOPIC, partition=0, directions=["read"], delay_ms=READ_MS
        )
        if mode == OFF:
            stage.until(lambda: stage.replicas[L].isr == (L,), "F and G are out of the ISR")
        elif mode == PROTECT:
            stage.until(lambda: client.now_s - slow_s > 2 * LAG_MS / 1_000, "twice the lag window passes")
            if set(stage.replicas[L].isr) != set(replicas):
                return Outcome("a follower left the ISR although it waited for the leader", is_expected=False)
        else:
            stage.until(leader, "F or G leads")
            count = len(client.acknowledged)
            stage.until(lambda: len(client.acknowledged) > count, "the client gets an acknowledgement")
        silent_s = client.longest_silence_s(slow_s, client.now_s)
        step.notes.append(f"longest time without an acknowledgement: {silent_s:.1f} s")
    dead_s, count = client.now_s, len(client.acknowledged)
    text = {
        OFF: "It was the only member of the ISR: the partition is offline.",
        PROTECT: "F or G leads at once: both are in the ISR.",
        RELINQUISH: "It no longer leads: clients notice nothing.",
    }[mode]
    with stage.step(f"L dies. {text}") as step:
        stage.kill(L, "dies")
        if mode == OFF:
            stage.until(lambda: all(stage.replicas[each].leader == -1 for each in (F, G)), "no replica leads")
            stage.until(lambda: client.now_s - dead_s > OFFLINE_S, "the client waits")
            # Acknowledgements that were in flight when L died do not count.
            is_offline = client.longest_silence_s(dead_s, client.now_s) > OFFLINE_S / 2
        else:
            stage.until(leader, "F or G leads")
            stage.until(lambda: len(client.acknowledged) > count + 1, "the client gets an acknowledgement")
            is_offline = False
            silent_s = client.longest_silence_s(dead_s, client.now_s)
            step.notes.append(f"longest time without an acknowledgement: {silent_s:.1f} s")
    longest_s = client.longest_silence_s(slow_s, client.now_s)
    count = len(client.acknowledged)
    with stage.step("L returns, with a healthy disk. " + ("It leads again." if mode == OFF else "It follows.")) as step:
        stage.start(L)
        all_replicas = set(replicas)
        stage.until(
            lambda: any(each.leads and set(each.isr) == all_replicas for each in stage.replicas.values()),
            "all are in sync",
        )
        stage.until(lambda: len(client.acknowledged) > count + 1, "the client gets an acknowledgement")
        if mode == OFF:
            step.notes.append(f"the partition was offline for {client.longest_silence_s(dead_s, client.now_s):.1f} s")
    with stage.step("The client stops. Every acknowledged record is on every replica, once."):
        client.stop()
        ends = {replica.log_end for replica in stage.replicas.values()}
        stage.until(
            lambda: len({replica.ends for replica in stage.replicas.values()}) == 1,
            f"all logs end at one offset, not {ends}",
        )
    contents = stage.read_contents()
    stored = list(contents.values())
    is_whole = all(each == stored[0] for each in stored) and set(client.acknowledged) <= set(stored[0])
    is_whole = is_whole and len(stored[0]) == len(set(stored[0])) and not client.failures
    if not is_whole:
        return Outcome(f"records are missing or duplicated; {client.failures[:1]}", is_expected=False)
    if mode == OFF:
        text = "the followers left the ISR, and when the leader died the partition was offline until it returned"
        return Outcome(text if is_offline else "the partition was not offline", is_offline)
    silence = f"at most {longest_s:.1f} s without an acknowledgement"
    if mode == PROTECT:
        text = f"the followers stayed in the ISR, and one of them took over when the leader died ({silence})"
        return Outcome(text, is_expected=True)
    text = f"leadership moved before the leader died, and clients did not notice its death ({silence})"
    return Outcome(text, is_expected=True)


SCENARIO = Scenario(
    name="slow-leader",
    title="A leader with a slow disk",
    about=__doc__.partition("\n\n")[2].replace("\n", " ").strip(),
    modes={
        OFF: "a follower that does not catch up in time leaves the ISR, whatever it waits for (Apache Kafka)",
        PROTECT: "a follower that fetched in time and waits for the leader's disk stays (KIP-501, solution 1)",
        RELINQUISH: "and a leader that keeps followers waiting hands the partition over (KIP-501, solutions 1 and 2)",
    },
    controller=CONTROLLER,
    lanes={L: "L", F: "F", G: "G"},
    config=CONFIG,
    config_of_mode=_config_of,
    play=_play,
)
