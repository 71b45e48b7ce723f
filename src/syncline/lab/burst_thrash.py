"""Bursts of writes under each lag rule: measured in messages, a follower thrashes; measured in time, it does not.

Each burst is larger than replica.lag.max.messages, so that for a moment every
follower is "too far behind", although it copies at full speed and catches up a
fraction of a second later. Measured in messages, it leaves the ISR and returns with
each burst; measured in time, it stays. Source: KIP-16, KAFKA-4485.
"""

from typing import Final

from syncline.lab.scenario import Scenario
from syncline.lab.stage import Outcome, Stage

L: Final = 1
F: Final = 2
CONTROLLER: Final = 3
BURSTS: Final = 3
BURST_RECORDS: Final = 5_000
MESSAGES_MAX: Final = 1_000
BY_MESSAGES: Final = "messages"
# Long compared with the time between two ISR ticks, short compared with the lag window.
LINK_MS: Final = 150

CONFIG: Final = {
    "eligible.leader.replicas.enable": "false",
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "60000",
    "replica.lag.time.max.ms": "30000",
    "replica.lag.check.interval.ms": "10",
    "replica.lag.max.messages": str(MESSAGES_MAX),
}


def _play(stage: Stage, mode: str) -> Outcome:
    by_messages = mode == BY_MESSAGES
    with stage.step(f"L leads, F follows over a connection that delays all data by {LINK_MS} ms each way."):
        stage.topic((L, F), ask=CONTROLLER)
        links = [[L, F], [F, L]]
        stage.begin_fault("link-delay", (L, F), F, f"delay of {LINK_MS} ms", links=links, delay_ms=LINK_MS)
        epoch_before = stage.replicas[L].partition_epoch
    left = 0
    for number in range(1, BURSTS + 1):
        end = number * BURST_RECORDS
        what = (
            "F leaves the ISR, and returns when it has them" if by_messages else "F stays in the ISR, and copies them"
        )
        with stage.step(f"Burst {number}: {BURST_RECORDS:,} records at once. {what}.") as step:
            stage.mark(L, f"burst {number}")
            values = [str(each) for each in range(BURST_RECORDS)]
            stage.write(L, values, acks=1)
            if by_messages:
                stage.until(lambda: stage.replicas[L].isr == (L,), "F is out of the ISR")
            stage.until(lambda end=end: stage.replicas[F].log_end == end, "F has the burst")  # type: ignore[misc]
            stage.until(lambda: set(stage.replicas[L].isr) == {L, F}, "F is in the ISR")
            changes = stage.replicas[L].partition_epoch - epoch_before
            step.notes.append(f"ISR changes so far: {changes}")
            left = changes // 2
    with stage.step("The writes stop, and all records are committed."):
        stage.until_ends(dict.fromkeys((L, F), (BURSTS * BURST_RECORDS, BURSTS * BURST_RECORDS)))
    changes = stage.replicas[L].partition_epoch - epoch_before
    expected = 2 * BURSTS if by_messages else 0
    text = (
        f"F left the ISR {left} times in {BURSTS} bursts, but was never more than a fraction of a second behind"
        if by_messages
        else f"F stayed in the ISR through {BURSTS} bursts of {BURST_RECORDS:,} records"
    )
    return Outcome(text if changes == expected else f"the ISR changed {changes} times", changes == expected)


SCENARIO = Scenario(
    name="burst-thrash",
    title="Bursts: with lag counted in messages, a follower leaves and returns",
    about=__doc__.partition("\n\n")[2].replace("\n", " ").strip(),
    modes={
        BY_MESSAGES: f"a member more than {MESSAGES_MAX:,} messages behind is out of sync (Kafka 0.8.2)",
        "time": "a member that was not caught up for replica.lag.time.max.ms is out of sync (Kafka since 0.10.2)",
        "lag-begin": "a member whose lag began longer ago than that is out of sync (KIP-16 as written)",
    },
    controller=CONTROLLER,
    lanes={L: "L", F: "F"},
    config=CONFIG,
    config_of_mode=lambda mode: {"replica.lag.mode": mode},
    play=_play,
)
