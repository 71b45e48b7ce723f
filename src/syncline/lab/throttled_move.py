"""A replica moves under a throttle that is too low: the move cannot end until the throttle is raised.

Clients write 600 kB/s to the partition. What they write during the copy has to be copied, too, so a throttle of 300
kB/s is less than keeping up takes, and the new replica falls behind until the throttle is raised. The doctor of
`syncline reassign status` says so. With 2.5 MB/s the move ends within seconds. Clients notice nothing: members of the
in-sync set, for which they wait, are not throttled. The page is that of `syncline reassign report`, from the journal.
"""

import time
from typing import Final

from syncline.lab.errors import LabError
from syncline.lab.scenario import Scenario
from syncline.lab.stage import TOPIC, Outcome, Stage, Story
from syncline.lab.writer import PacedWriter
from syncline.model.events import Event, EventDecodeError, from_json
from syncline.model.ids import JOURNAL_TOPIC
from syncline.move_report import words
from syncline.move_report.facts import Ending, Facts
from syncline.move_report.gathering import facts_of
from syncline.move_report.moves import chosen, moves_of
from syncline.move_report.page import Origin, render
from syncline.reassign.amounts import rate_words
from syncline.wire.api import ApiKey

SOURCE: Final = 1
OLD: Final = 2
NEW: Final = 3
STRICT: Final = "strict"
MOVE_VERSION: Final = 1
MOVE_NAME: Final = "throttled-move"

FILL_BATCHES: Final = 10
FILL_BYTES: Final = 300_000
WRITE_BYTES: Final = 30_000
WRITE_INTERVAL_S: Final = 0.05
TOO_LOW: Final = 300_000
ENOUGH: Final = 2_500_000
BEFORE_WRITES: Final = 30
AFTER_WRITES: Final = 20
# No acknowledgement may take longer. At rest, the slowest takes some ten milliseconds; a busy machine has made one take
# two seconds.
FELT_MS: Final = 4_000.0
# The doctor must say for this long that the throttle is too low, so that chance is excluded.
STUCK_MS: Final = 4_000
BOTH_SIDES: Final = 2
# The journal is read again after this time.
LOOK_S: Final = 0.4

CONFIG: Final = {
    "journal.enable": "true",
    "journal.progress.interval.ms": "250",
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "60000",
}


class _Journal:
    """The journal as the brokers' files have it, and what it says about the move."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._read_s = 0.0
        self.facts: Facts | None = None

    def events(self) -> list[Event]:
        """Return all events that are written."""
        found = []
        for _, _, value in self._stage.cluster.contents(SOURCE, JOURNAL_TOPIC):
            try:
                found.append(from_json(value))
            except EventDecodeError:
                continue
        return found

    def look(self) -> Facts | None:
        """Return what the journal says about the move, None if nothing yet; reads it now and then."""
        if time.monotonic() - self._read_s > LOOK_S:
            self._read_s = time.monotonic()
            events = self.events()
            span = chosen(moves_of(events), MOVE_NAME)
            if span is not None:
                self.facts = facts_of(span, events, max(event.ts_ms for event in events))
        return self.facts


def _play(stage: Stage, _: str) -> Outcome:
    with stage.step("The source leads, a follower is in sync. The partition holds 3 MB."):
        stage.topic((SOURCE, OLD), ask=OLD)
        for _number in range(FILL_BATCHES):
            produced = stage.client(SOURCE).produce(TOPIC, ["x" * FILL_BYTES], acks=-1)
            if produced.error:
                raise LabError(f"the source refused a batch: {produced.error.name}")
        stage.until(lambda: _has_journal(stage), "the journal is written")
    client = stage.cluster.client(SOURCE)
    writer = PacedWriter(client, TOPIC, batch_bytes=WRITE_BYTES, interval_s=WRITE_INTERVAL_S)
    try:
        return _with_writer(stage, writer)
    finally:
        writer.stop()
        client.close()


def _has_journal(stage: Stage) -> bool:
    return bool(stage.cluster.contents(SOURCE, JOURNAL_TOPIC))


def _with_writer(stage: Stage, writer: PacedWriter) -> Outcome:
    journal = _Journal(stage)
    written = rate_words(WRITE_BYTES / WRITE_INTERVAL_S)
    with stage.step(f"A client writes {written} with acks=all."):
        stage.until(lambda: writer.failures or writer.acknowledged >= BEFORE_WRITES, "batches are acknowledged")
    with stage.step(
        f"The follower's replica moves to the destination, with a throttle of {rate_words(TOO_LOW)}."
    ) as step:
        stage.mark(NEW, "is added")
        _move(stage, TOO_LOW)
        stage.until(lambda: writer.failures or _told(journal.look()), "the doctor finds the throttle too low")
        step.notes += [f"the doctor says: {sentence}" for sentence in _told(journal.look())]
    with stage.step(f"The throttle is raised to {rate_words(ENOUGH)}. The move ends, and its throttle with it."):
        stage.mark(None, f"throttle {rate_words(ENOUGH)}")
        _move(stage, ENOUGH)
        stage.until(
            lambda: writer.failures or stage.replicas[SOURCE].isr == (SOURCE, NEW), "the new replica is in sync"
        )
    count = writer.acknowledged
    with stage.step("The client continues, then stops. The new replica has every record.") as step:
        stage.until(lambda: writer.failures or writer.acknowledged >= count + AFTER_WRITES, "batches are acknowledged")
        writer.stop()
        stage.until(lambda: stage.replicas[NEW].ends == stage.replicas[SOURCE].ends, "both logs have the same end")
        stage.until(lambda: _is_over(journal.look()), "the journal has the end of the move")
        step.notes.append(f"the slowest acknowledgement took {writer.slowest_ms:.0f} ms")
    return _outcome(stage, writer, journal)


def _move(stage: Stage, throttle: int) -> None:
    """Request the move, or another throttle for it."""
    answer = stage.client(OLD).ask(
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        MOVE_VERSION,
        {
            "timeout": 10_000,
            "topics": [{"name": TOPIC, "partitions": [{"partition_index": 0, "replicas": (SOURCE, NEW)}]}],
            "throttle": throttle,
            "name": MOVE_NAME,
        },
    )
    rows = [row for topic in answer.responses for row in topic.partitions]
    refusal = next((row.error_message for row in rows if int(row.error_code)), answer.error_message)
    if refusal is not None:
        raise LabError(f"cannot move the replica: {refusal}")


def _told(facts: Facts | None) -> list[str]:
    """Return what the doctor says about the throttle; [] until it has said so for a while about both sides."""
    stretches = () if facts is None else facts.held_back
    told = [
        each.sentence
        for each in stretches
        if "keep-up traffic alone" in each.sentence and each.end_ms - each.start_ms >= STUCK_MS
    ]
    return told if len(told) >= BOTH_SIDES else []


def _is_over(facts: Facts | None) -> bool:
    return facts is not None and facts.ending is Ending.COMPLETED


def _outcome(stage: Stage, writer: PacedWriter, journal: _Journal) -> Outcome:
    facts = journal.look()
    assert facts is not None, "the last step waited for it"
    logs = {each: [value for *_, value in stage.cluster.contents(each, TOPIC)] for each in (SOURCE, NEW)}
    if writer.failures or logs[SOURCE] != logs[NEW] or len(logs[NEW]) != FILL_BATCHES + writer.acknowledged:
        return Outcome(f"records are missing or duplicated; {writer.failures[:1]}", is_expected=False)
    if writer.slowest_ms > FELT_MS:
        return Outcome(f"a client waited {writer.slowest_ms:,.0f} ms for an acknowledgement", is_expected=False)
    stage.story.journal = journal.events()
    low, enough = rate_words(TOO_LOW), rate_words(ENOUGH)
    text = f"with {low} the move could not end, with {enough} it did, and no client waited {FELT_MS:,.0f} ms"
    return Outcome(f"{text}. {words.verdict(facts)}".rstrip("."), is_expected=True)


def _page(stories: list[Story]) -> str:
    """Return the report about the move of the last run."""
    story = stories[-1]
    span = chosen(moves_of(story.journal), MOVE_NAME)
    if span is None:
        raise LabError("the run made no move to show.")
    made_ms = max(event.ts_ms for event in story.journal)
    return render(facts_of(span, story.journal, made_ms), Origin("syncline lab run throttled-move", made_ms))


SCENARIO = Scenario(
    name="throttled-move",
    title="A move whose throttle is too low",
    about=__doc__.partition("\n\n")[2].replace("\n", " ").strip(),
    modes={
        STRICT: "the move keeps its throttle over any period; the throttle is first below the keep-up traffic, then "
        "raised"
    },
    controller=OLD,
    lanes={SOURCE: "source", OLD: "old replica", NEW: "destination"},
    config=CONFIG,
    play=_play,
    page=_page,
)
