"""A paused leader is deposed, wakes up, and still believes that it leads.

Its connection to the controller is cut as well, so that it does not learn of the
new epoch. It accepts a write with acks=all that can never commit, because no
replica follows it any longer; other brokers refuse requests that name its epoch.
When it learns of the new epoch, it refuses the write and cuts the records that
no other replica has. Source: KIP-101, KIP-320.
"""

from typing import Final

from syncline.lab.data_loss import cuts_of
from syncline.lab.scenario import Scenario
from syncline.lab.stage import TOPIC, Outcome, Stage
from syncline.model.errors import ErrorCode

ZOMBIE: Final = 1
NEXT: Final = 2
MIRROR: Final = 3
CONTROLLER: Final = 4
REFUSALS: Final = {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND}
MODE: Final = "epoch-fencing"

CONFIG: Final = {
    "broker.heartbeat.interval.ms": "200",
    # To the other brokers the paused leader is only silent.
    "broker.session.timeout.ms": "3000",
    "replica.lag.time.max.ms": "60000",
    "replica.socket.timeout.ms": "60000",
    "replica.fetch.backoff.ms": "50",
}


def _play(stage: Stage, _mode: str) -> Outcome:
    replicas = (ZOMBIE, NEXT, MIRROR)
    with stage.step("Z leads; N and M follow. min.insync.replicas is 2. a is written with acks=all."):
        stage.topic(replicas, ask=CONTROLLER, configs={"min.insync.replicas": "2"})
        stage.write(ZOMBIE, ["a"], acks=-1)
        stage.until_ends(dict.fromkeys(replicas, (1, 1)))
    with stage.step("Z is paused, and its connection to the controller is cut."):
        cut = stage.begin_fault(
            "link-cut",
            (ZOMBIE, CONTROLLER),
            ZOMBIE,
            "cut off from the controller",
            links=[[ZOMBIE, CONTROLLER], [CONTROLLER, ZOMBIE]],
        )
        stage.pause(ZOMBIE)
    with stage.step("Z is silent until its session ends: the controller fences it, and N leads the next epoch."):
        stage.until(lambda: stage.replicas[NEXT].leads, "N leads")
        stage.until(lambda: ZOMBIE not in stage.replicas[NEXT].isr, "Z is out of the ISR")
    old, new = stage.replicas[ZOMBIE].leader_epoch, stage.replicas[NEXT].leader_epoch
    with stage.step(f"x is written to N with acks=all and acknowledged, in epoch {new}."):
        stage.write(NEXT, ["x"], acks=-1)
        stage.until(lambda: stage.replicas[NEXT].ends == (2, 2), "x is committed")
    with stage.step(
        "Z wakes up and believes that it leads. It accepts z at x's offset, but cannot commit it: no replica follows."
    ):
        stage.resume(ZOMBIE)
        zombie = stage.client(ZOMBIE)
        waiting = zombie.send_produce(TOPIC, ["z"], acks=-1, timeout_ms=60_000)
        stage.until(lambda: stage.replicas[ZOMBIE].leads and stage.replicas[ZOMBIE].ends == (2, 1), "Z has accepted z")
    with stage.step("Z and N both believe that they lead, but each request names the epoch of only one.") as step:
        fenced = stage.client(NEXT).epoch_error(TOPIC, old)
        # On another connection: answers arrive in the order of the requests, and z has none yet.
        with stage.cluster.client(ZOMBIE) as other:
            ahead = other.epoch_error(TOPIC, new)
        step.notes.append(f"N, asked in epoch {old}: {fenced.name}; Z, asked in epoch {new}: {ahead.name}")
    with stage.step("The connection is back, and Z learns of N: it refuses z, cuts it, and copies x.") as step:
        stage.end_fault(cut, (ZOMBIE, CONTROLLER), ZOMBIE, "connection is back")
        verdict = zombie.produced(waiting)
        step.notes.append(f"z was answered with {verdict.error.name}")
        stage.until(lambda: ZOMBIE in stage.replicas[NEXT].isr, "Z is back in the ISR")
        stage.until_ends(dict.fromkeys(replicas, (2, 2)))
        step.notes += cuts_of(stage, ZOMBIE)
    contents = stage.read_contents()
    is_so = (
        all(values == ["a", "x"] for values in contents.values())
        and verdict.error in REFUSALS
        and (fenced, ahead) == (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH)
    )
    text = f"z was refused ({verdict.error.name}) and is on no replica; a and x are on all three replicas"
    return Outcome(text if is_so else f"z was answered with {verdict.error.name}; logs {contents}", is_so)


SCENARIO = Scenario(
    name="zombie-leader",
    title="A deposed leader wakes up and does no harm",
    about=__doc__.partition("\n\n")[2].replace("\n", " ").strip(),
    modes={MODE: "every leader has its own epoch, and every request names the epoch that it is meant for"},
    controller=CONTROLLER,
    lanes={ZOMBIE: "Z", NEXT: "N", MIRROR: "M"},
    config=CONFIG,
    play=_play,
)
