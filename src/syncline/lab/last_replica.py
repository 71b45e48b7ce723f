"""Which replica may lead when the last one in the ISR loses power: KIP-966, with and without eligible leader replicas.

Two of three replicas stop cleanly for maintenance; from then on the leader
refuses writes with acks=all, because one replica is less than
min.insync.replicas. Then the last replica loses power, and with it a record that
it acknowledged but had not yet written to its disk. The other two have it.
"""

from typing import Final

from syncline.lab.scenario import Scenario
from syncline.lab.stage import TOPIC, Outcome, Stage
from syncline.model.errors import ErrorCode

LAST: Final = 1
SECOND: Final = 2
FIRST: Final = 3
CONTROLLER: Final = 4
WITH_ELR: Final = "elr-on"
WITHOUT_ELR: Final = "elr-off"

CONFIG: Final = {
    "broker.heartbeat.interval.ms": "200",
    "broker.session.timeout.ms": "60000",
    "replica.lag.time.max.ms": "60000",
    "replica.socket.timeout.ms": "60000",
    "replica.fetch.backoff.ms": "50",
}


def _lose_tail(stage: Stage, broker_id: int, value: str) -> None:
    """Cut the last record from a dead replica's file, as if it had never reached the disk."""
    directory = stage.cluster.partition_directory(broker_id, TOPIC)
    (file,) = sorted(directory.glob("*.log"))
    data = file.read_bytes()
    at = data.rindex(value.encode())
    # The batch with the value begins with its base offset and length.
    begin = max(start for start in _batch_starts(data) if start < at)
    file.write_bytes(data[:begin])


def _batch_starts(data: bytes) -> list[int]:
    starts, position = [], 0
    while position < len(data):
        starts.append(position)
        position += 12 + int.from_bytes(data[position + 8 : position + 12])
    return starts


def _play(stage: Stage, mode: str) -> Outcome:
    replicas = (LAST, SECOND, FIRST)
    has_elr = mode == WITH_ELR
    with stage.step("1 leads, 2 and 3 follow; min.insync.replicas is 2. m0 and m1 are written with acks=all."):
        stage.topic(replicas, ask=CONTROLLER, configs={"min.insync.replicas": "2"})
        for value in ("m0", "m1"):
            stage.write(LAST, [value], acks=-1)
        stage.until(lambda: all(stage.replicas[each].log_end == 2 for each in replicas), "all have both records")
        stage.until(lambda: stage.replicas[LAST].high_watermark == 2, "m1 is committed")
    with stage.step("3 stops cleanly: the ISR is 1 and 2, still enough."):
        stage.stop(FIRST)
        stage.until(lambda: set(stage.replicas[LAST].isr) == {LAST, SECOND}, "3 is out of the ISR")
    with stage.step(
        "2 stops, too: the ISR is only 1, below the minimum." + (" 2 stays eligible to lead (ELR)." if has_elr else "")
    ):
        stage.stop(SECOND)
        stage.until(lambda: stage.replicas[LAST].isr == (LAST,), "2 is out of the ISR")
    with stage.step("m2 with acks=all is refused: one replica is not enough.") as step:
        refused = stage.client(LAST).produce(TOPIC, ["m2"], acks=-1).error
        step.notes.append(f"m2 was answered with {refused.name}")
    with stage.step("1 loses power, and with it m1, which had not reached its disk."):
        stage.kill(LAST, "loses power, and m1")
        _lose_tail(stage, LAST, "m1")
        stage.lost_on_disk(LAST, 1)
        stage.until(lambda: LAST not in stage.unfenced, "the controller has fenced 1")
    with stage.step(
        "2 returns. "
        + ("It is eligible and leads, with m1." if has_elr else "It has m1, and may not lead: it is not in the ISR.")
    ) as step:
        stage.start(SECOND)
        if has_elr:
            stage.until(lambda: stage.replicas[SECOND].leads, "2 leads")
        else:
            stage.until(lambda: SECOND in stage.unfenced, "2 is back")
            stage.until(lambda: stage.replicas[SECOND].role == "follower", "2 has no leader")
            is_offline = stage.replicas[SECOND].leader == -1
            step.notes.append("the partition is offline" if is_offline else "the partition has a leader")
    with stage.step(
        "1 returns without m1. "
        + (
            "It follows 2 and gets m1 back."
            if has_elr
            else "It is the whole ISR, so it leads; 2 follows it and cuts m1."
        )
    ):
        stage.start(LAST)
        end = 2 if has_elr else 1
        leader = SECOND if has_elr else LAST
        stage.until(lambda: stage.replicas[leader].leads, f"{leader} leads")
        stage.until(lambda: set(stage.replicas[leader].isr) == {LAST, SECOND}, "1 and 2 are in sync")
        stage.until(
            lambda: all(stage.replicas[each].log_end == end for each in (LAST, SECOND)), "1 and 2 have equal log ends"
        )
    with stage.step(f"3 returns and follows {leader}."):
        stage.start(FIRST)
        stage.until(lambda: len(stage.replicas[leader].isr) == 3, "all are in sync")
        stage.until_ends(dict.fromkeys(replicas, (end, end)))
    contents = stage.read_contents()
    expected = ["m0", "m1"] if has_elr else ["m0"]
    is_so = all(values == expected for values in contents.values()) and refused is ErrorCode.NOT_ENOUGH_REPLICAS
    text = (
        "m1 is on all replicas: only a replica that has every committed record may lead"
        if has_elr
        else "m1 is lost on all replicas, although all three had it: the last member of the ISR leads in any case"
    )
    return Outcome(text if is_so else f"unexpected logs {contents}; m2 was answered with {refused.name}", is_so)


SCENARIO = Scenario(
    name="last-replica-standing",
    title="The last replica in the ISR loses power",
    about=__doc__.partition("\n\n")[2].replace("\n", " ").strip(),
    modes={
        WITHOUT_ELR: "only a member of the ISR may lead (Kafka before 4.0)",
        WITH_ELR: "a replica that leaves the ISR below its minimum stays eligible (KIP-966)",
    },
    controller=CONTROLLER,
    lanes={LAST: "1", SECOND: "2", FIRST: "3"},
    config=CONFIG,
    config_of_mode=lambda mode: {"eligible.leader.replicas.enable": "true" if mode == WITH_ELR else "false"},
    play=_play,
)
