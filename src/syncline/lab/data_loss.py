"""KIP-101, first history: both replicas lose a committed record, because a follower cut its log at its own watermark.

The follower has the record but does not know yet that it is committed. It
restarts so quickly that the controller does not notice; the leader dies before
the follower fetches again. Source: KIP-101; Kafka before 0.11. Scenarios E08
and E09.
"""

from syncline.lab.histories import BY_WATERMARK, CONTROLLER, MODES, QUIET, F, L, truncation_mode
from syncline.lab.scenario import Scenario
from syncline.lab.stage import TOPIC, Outcome, Stage


def bounce_unnoticed(stage: Stage, first: str, second: str, third: str) -> None:
    """Play three steps with these texts: F restarts unnoticed, L dies before F fetches again, F leads."""

    def is_written(broker_id: int) -> bool:
        written = stage.cluster.written_high_watermark(broker_id, TOPIC) or 0
        return written == stage.replicas[broker_id].high_watermark

    with stage.step(first):
        # A restart reads the last checkpoint: a stale file would make this another history (E14).
        stage.until(lambda: is_written(L) and is_written(F), "L and F have written their high watermarks to disk")
        stage.client(CONTROLLER).set_for_all_brokers("quick.bounce.enable", "true")
        stage.kill(F, "stopped")
    with stage.step(second) as step:
        stage.pause(L, "hangs")
        stage.start(F)
        stage.until(lambda: stage.replicas[F].role == "follower" and stage.replicas[F].phase is not None, "F follows")
        step.notes += cuts_of(stage, F)
    with stage.step(third):
        stage.client(CONTROLLER).set_for_all_brokers("quick.bounce.enable", "false")
        stage.kill(L, "dies")
        stage.until(lambda: stage.replicas[F].leads, "F leads")


def come_back(stage: Stage, text: str) -> None:
    """Play the step in which L returns and follows F."""
    with stage.step(text) as step:
        before = len(cuts_of(stage, L))
        stage.start(L)
        stage.until(
            lambda: (
                stage.replicas[F].isr in {(L, F), (F, L)}
                and stage.replicas[L].role == "follower"
                and stage.replicas[L].log_end == stage.replicas[F].log_end
            ),
            "L is in sync with F",
        )
        step.notes += cuts_of(stage, L)[before:]


def cuts_of(stage: Stage, broker_id: int) -> list[str]:
    """Return the lines of a broker's log that report cuts of its replica."""
    lines = stage.cluster.log_lines(broker_id, f"{TOPIC}-0: truncated")
    return [f"{stage.story.lanes[broker_id]} says: {line.partition(f'{TOPIC}-0: ')[2]}" for line in lines]


def _play(stage: Stage, mode: str) -> Outcome:
    with stage.step("L leads, F follows; both are empty and in sync."):
        stage.topic((L, F), ask=CONTROLLER)
    with stage.step(
        "m0 is written with acks=all and acknowledged: F has it, and L knows. F does not know that it is committed."
    ):
        stage.write(L, ["m0"], acks=-1)
        stage.until_ends({L: (1, 1), F: (1, 0)})
    is_blind = mode == BY_WATERMARK
    bounce_unnoticed(
        stage,
        "F stops. It never learnt that the high watermark is 1.",
        "F is back before the controller notices; L hangs before F can fetch from it. "
        + ("F cuts its log at its own high watermark, 0." if is_blind else "F keeps its log and its epochs."),
        f"L dies. F is in the ISR and leads epoch 1, which starts at {0 if is_blind else 1}.",
    )
    come_back(
        stage,
        "L returns as follower. "
        + ("It asks for offset 1, F ends at 0, and L cuts m0." if is_blind else "The histories agree: nothing is cut."),
    )
    contents = stage.read_contents()
    epochs = stage.replicas[F].epochs
    if is_blind:
        is_lost = contents[L] == [] and contents[F] == []
        text = "m0 is lost on both replicas, although it was acknowledged to acks=all"
        return Outcome(text if is_lost else f"m0 was not lost: {contents}", is_lost)
    is_kept = contents[L] == ["m0"] and contents[F] == ["m0"] and epochs == ((0, 0), (1, 1))
    text = "m0 is on both replicas; epoch 1 starts after it"
    return Outcome(text if is_kept else f"unexpected logs {contents}, epochs {epochs}", is_kept)


SCENARIO = Scenario(
    name="data-loss",
    title="A committed record is lost on both replicas",
    about=__doc__.partition("\n\n")[2].replace("\n", " ").strip(),
    modes=MODES,
    controller=CONTROLLER,
    lanes={L: "L", F: "F"},
    config=QUIET,
    config_of_mode=truncation_mode,
    play=_play,
)
