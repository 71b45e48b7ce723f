"""Two groups are a hundred records behind: the next one is two seconds old for one group, two hours for the other.

A lag in records says nothing about time: a hundred records are a moment of a busy topic and hours of a quiet one. The
brokers know when each record was appended, so they can tell the two groups apart, even after a restart. The
scenario does not take two hours: the broker runs twice, and its clock is two hours slow during the first run.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from syncline.lab.errors import LabError
from syncline.lab.lag_lies_page import Measured, page, waited
from syncline.lab.scenario import Scenario
from syncline.lab.stage import TOPIC, Outcome, Stage, Story
from syncline.local.control import ControlError
from syncline.model.errors import ErrorCode
from syncline.pictures.labels import size
from syncline.wire.api import ApiKey

TITLE: Final = "Equal lags in records: two seconds and two hours"
ABOUT: Final = __doc__.partition("\n\n")[2].replace("\n", " ").strip()
BROKER: Final = 1
QUIET_TOPIC: Final = TOPIC
BUSY_TOPIC: Final = "busy"
HOURS: Final = "reads-the-quiet-topic"
SECONDS: Final = "reads-the-busy-topic"
RECORDS: Final = 150
READ: Final = 50
LAG: Final = RECORDS - READ
VALUE_BYTES: Final = 40
EARLIER_MS: Final = 7_200_000
WAITED_MS: Final = 2_000
# How much longer the records may have waited before the lab looks, on a busy machine.
SLACK_MS: Final = 60_000
FIND_COORDINATOR_VERSION: Final = 4
OFFSET_COMMIT_VERSION: Final = 8

CONFIG: Final = {
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "60000",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "clock.offset.ms": str(-EARLIER_MS),
}


class Lag(NamedTuple):
    """How far a group is behind, as the broker reports it."""

    group: str
    records: int
    size_bytes: int
    waited_ms: int
    is_estimated: bool

    def __str__(self) -> str:
        amounts = f"{self.records:,} records, {size(self.size_bytes)}"
        return f"{self.group}: {amounts}; the next one has waited {waited(self.waited_ms)}"

    @property
    def measured(self) -> Measured:
        """What its page shows."""
        return Measured(self.group, self.records, self.size_bytes, self.waited_ms)


def _play(stage: Stage, _: str) -> Outcome:
    with stage.step("Two hours ago, by the broker's clock: a quiet topic received 150 records. Its group has read 50."):
        stage.topic((BROKER,), ask=BROKER)
        stage.write(BROKER, _values(), acks=-1)
        _commit(stage, HOURS, QUIET_TOPIC)
    with stage.step("The broker stops and starts again, now with the right clock. Nothing else was written meanwhile."):
        stage.stop(BROKER)
        stage.start(BROKER, config={"clock.offset.ms": "0"})
        stage.until(lambda: stage.replicas[BROKER].leads, "the broker leads")
    with stage.step("A busy topic receives 150 records at once. Its group has read 50."):
        stage.client(BROKER).create_topic(BUSY_TOPIC, (BROKER,), {})
        produced = stage.client(BROKER).produce(BUSY_TOPIC, _values(), acks=-1)
        if produced.error:
            raise LabError(f"the broker refused to write to {BUSY_TOPIC}: {produced.error.name}")
        _commit(stage, SECONDS, BUSY_TOPIC)
    with stage.step(
        "Both groups are 100 records behind. The broker reports how long these records have waited."
    ) as step:
        stage.until(lambda: _waited_ms(stage, SECONDS) >= WAITED_MS, "records of the busy topic have waited 2 s")
        quiet, busy = _lag(stage, HOURS), _lag(stage, SECONDS)
        assert quiet is not None
        assert busy is not None
        step.notes += [f"group {quiet}", f"group {busy}"]
    stage.story.measured = [busy.measured, quiet.measured]
    is_expected = (
        quiet.records == busy.records == LAG
        and quiet.size_bytes == busy.size_bytes
        and 0 <= quiet.waited_ms - EARLIER_MS <= SLACK_MS
        and 0 <= busy.waited_ms - WAITED_MS <= SLACK_MS
        and not (quiet.is_estimated or busy.is_estimated)
    )
    return Outcome(
        f"both groups are {LAG} records behind; the next one has waited {waited(busy.waited_ms)} for "
        f"{SECONDS} and {waited(quiet.waited_ms)} for {HOURS}",
        is_expected,
    )


def _values() -> list[str]:
    return ["x" * VALUE_BYTES] * RECORDS


def _commit(stage: Stage, group: str, topic: str) -> None:
    """Commit what a group has read; it has no members."""
    client = stage.client(BROKER)

    def is_coordinated() -> bool:
        found = client.ask(
            ApiKey.FIND_COORDINATOR, FIND_COORDINATOR_VERSION, {"key_type": 0, "coordinator_keys": [group]}
        )
        return not int(found.coordinators[0].error_code) and _committed(client.ask, group, topic) is ErrorCode.NONE

    stage.until(is_coordinated, f"group {group} has committed")


def _committed(ask: Any, group: str, topic: str) -> ErrorCode:
    answer = ask(
        ApiKey.OFFSET_COMMIT,
        OFFSET_COMMIT_VERSION,
        {
            "group_id": group,
            "generation_id_or_member_epoch": -1,
            "member_id": "",
            "group_instance_id": None,
            "topics": [
                {
                    "name": topic,
                    "partitions": [
                        {
                            "partition_index": 0,
                            "committed_offset": READ,
                            "committed_leader_epoch": -1,
                            "committed_metadata": "",
                        }
                    ],
                }
            ],
        },
    )
    return ErrorCode(int(answer.topics[0].partitions[0].error_code))


def _lag(stage: Stage, group: str) -> Lag | None:
    """Return what the broker reports about a group; None while it does not know."""
    try:
        answer: Mapping[str, Any] = stage.cluster.control(BROKER).call("lag.group", group=group)
    except ControlError:
        return None
    row = next(iter(answer.get("rows", ())), None)
    if row is None or row["staleness_ms"] is None:
        return None
    return Lag(group, row["lag_hw"], row["lag_bytes"], row["staleness_ms"], row["is_estimated"])


def _waited_ms(stage: Stage, group: str) -> int:
    """Return how long the next record has waited; -1 while the broker does not know this for both groups."""
    lag = _lag(stage, group)
    return -1 if lag is None or _lag(stage, HOURS) is None else lag.waited_ms


def _page(stories: list[Story]) -> str:
    """Return the page of the last run."""
    return page(TITLE, ABOUT, stories[-1].measured)


SCENARIO = Scenario(
    name="lag-by-records-lies",
    title=TITLE,
    about=ABOUT,
    modes={"measured": "by append times, which the broker keeps across a restart"},
    controller=BROKER,
    lanes={BROKER: "broker"},
    config=CONFIG,
    play=_play,
    page=_page,
)
