"""KIP-279: after several quick elections two logs share no record, and only comparing whole histories shows it.

Two replicas lead in turns, each while the other is down, and each turn writes
one record: at every offset the two logs have different epochs, and both logs have
the same length. When both are up again, one answer about one epoch is not enough:
each round finds an older epoch that the leader does not have.
Source: KIP-279. Scenarios E03 and E07.
"""

from typing import Final

from syncline.lab.data_loss import cuts_of
from syncline.lab.histories import BY_WATERMARK, CONTROLLER, MODES, QUIET, truncation_mode
from syncline.lab.scenario import Scenario
from syncline.lab.stage import TOPIC, Outcome, Stage

A: Final = 1
B: Final = 2
LINK_MS: Final = 100
TURNS: Final = (A, B, A, B, A, B)


def _write(stage: Stage, broker_id: int, value: str) -> None:
    end = stage.write(broker_id, [value], acks=1) + 1
    stage.until_ends({broker_id: (end, end)})
    written = stage.cluster.written_high_watermark
    stage.until(lambda: written(broker_id, TOPIC) == end, f"broker {broker_id} has written its high watermark to disk")


def _play(stage: Stage, mode: str) -> Outcome:
    with stage.step("A leads, B follows. B stops, and A is alone in the ISR. Unclean elections are allowed."):
        stage.topic((A, B), ask=CONTROLLER, configs={"unclean.leader.election.enable": "true"})
        stage.kill(B, "stops")
        stage.until(lambda: stage.replicas[A].isr == (A,), "A is alone in the ISR")
    written: dict[int, list[str]] = {A: [], B: []}
    for number, writer in enumerate(TURNS):
        name, other = ("A", "B") if writer == A else ("B", "A")
        value = f"{name.lower()}{number}"
        turn = f"{name} writes {value}" if not number else f"{other} stops, {name} returns, leads and writes {value}"
        with stage.step(f"{turn}, which {other} will never have."):
            if number:
                stage.kill(A + B - writer, "stops")
                stage.start(writer)
                stage.until(lambda writer=writer: stage.replicas[writer].leads, f"{name} leads")  # type: ignore[misc]
            _write(stage, writer, value)
            written[writer].append(value)
    is_blind = mode == BY_WATERMARK
    before = len(cuts_of(stage, A))
    with stage.step(
        "A returns as B's follower. "
        + (
            "It has committed all it has, so it cuts nothing; both end at 3, so it fetches nothing."
            if is_blind
            else "Round by round it finds an epoch that B does not have, and cuts it; then it copies B's log."
        )
    ) as step:
        # Slow enough to see each round.
        stage.begin_fault("link-delay", (B,), B, f"data from A takes {LINK_MS} ms", links=[[A, B]], delay_ms=LINK_MS)
        stage.start(A)
        stage.until(lambda: set(stage.replicas[B].isr) == {A, B}, "A is in sync with B")
        stage.until(lambda: stage.replicas[A].log_end == stage.replicas[B].log_end, "both logs have the same end")
        step.notes += cuts_of(stage, A)[before:]
    cuts = len(cuts_of(stage, A)) - before
    contents = stage.read_contents()
    if is_blind:
        differs = (contents[A], contents[B]) == (written[A], written[B]) and cuts == 0
        text = "A and B differ at every offset, both are in sync, and no broker ever detects it"
        return Outcome(text if differs else f"unexpected logs {contents} after {cuts} cuts", differs)
    is_same = contents[A] == contents[B] == written[B] and cuts == len(written[A])
    text = f"after {cuts} rounds, A's log equals B's"
    return Outcome(text if is_same else f"unexpected logs {contents} after {cuts} cuts", is_same)


SCENARIO = Scenario(
    name="kip-279",
    title="Quick elections leave two logs that share nothing",
    about=__doc__.partition("\n\n")[2].replace("\n", " ").strip(),
    modes=MODES,
    controller=CONTROLLER,
    lanes={A: "A", B: "B"},
    config=QUIET,
    config_of_mode=truncation_mode,
    play=_play,
)
