"""KIP-101, second history: two replicas hold different records at the same offset, and both believe them committed.

The follower knows only that m1 is committed, restarts unnoticed, becomes leader,
and writes another record in place of m2. Source: KIP-101; Kafka before 0.11.
Scenarios E11 and E12.
"""

from syncline.lab.data_loss import bounce_unnoticed, come_back
from syncline.lab.histories import BY_WATERMARK, CONTROLLER, MODES, QUIET, F, L, truncation_mode
from syncline.lab.scenario import Scenario
from syncline.lab.stage import Outcome, Stage


def _play(stage: Stage, mode: str) -> Outcome:
    is_blind = mode == BY_WATERMARK
    with stage.step("L leads, F follows; both are empty and in sync."):
        stage.topic((L, F), ask=CONTROLLER)
    with stage.step("m1 is written and committed; F has it but does not know that it is committed."):
        stage.write(L, ["m1"], acks=-1)
        stage.until_ends({L: (1, 1), F: (1, 0)})
    with stage.step(
        "m2 is written and committed. With m2, F learnt that m1 is committed: its high watermark is one behind."
    ):
        stage.write(L, ["m2"], acks=-1)
        stage.until_ends({L: (2, 2), F: (2, 1)})
    bounce_unnoticed(
        stage,
        "F stops. It never learnt that the high watermark is 2.",
        "F is back before the controller notices; L hangs before F can fetch from it. "
        + ("F cuts its log at its own high watermark, 1." if is_blind else "F keeps its log and its epochs."),
        f"L dies with HW 2 on its disk. F is in the ISR and leads epoch 1, which starts at {1 if is_blind else 2}.",
    )
    with stage.step(f"m3 is written to F, at offset {1 if is_blind else 2}."):
        stage.write(F, ["m3"], acks=1)
        end = 2 if is_blind else 3
        stage.until_ends({F: (end, end)})
    come_back(
        stage,
        "L returns as follower. "
        + ("Its own high watermark is 2, so it cuts nothing. Both end at 2, so it fetches nothing."
           if is_blind else "The histories agree up to 2: L copies m3."),
    )  # fmt: skip
    contents = stage.read_contents()
    if is_blind:
        differs = (contents[L], contents[F]) == (["m1", "m2"], ["m1", "m3"])
        marks = (stage.replicas[L].high_watermark, stage.replicas[F].high_watermark)
        text = "at offset 1, L holds m2 and F holds m3, forever, and both believe it committed"
        return Outcome(text if differs else f"unexpected logs {contents}, HW {marks}", differs and marks == (2, 2))
    is_same = contents[L] == contents[F] == ["m1", "m2", "m3"]
    text = "m1, m2 and m3 are on both replicas, in this order"
    return Outcome(text if is_same else f"unexpected logs {contents}", is_same)


SCENARIO = Scenario(
    name="divergence",
    title="Two replicas differ at one offset and do not know it",
    about=__doc__.partition("\n\n")[2].replace("\n", " ").strip(),
    modes=MODES,
    controller=CONTROLLER,
    lanes={L: "L", F: "F"},
    config=QUIET,
    config_of_mode=truncation_mode,
    play=_play,
)
