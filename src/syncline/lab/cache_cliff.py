"""A slow consumer falls off the page cache and slows others; the miss curve predicts it.

A broker keeps the newest part of each log in memory. A consumer that reads more slowly than others write falls behind
until what it reads next is no longer there. From then on, each of its fetches waits for the disk, and so do others that
need the same threads: fetches of 4 MB and more, although all their data is in memory. Smaller fetches at the tail are
as fast as before. The broker's own counters, drawn as a curve over memory sizes, predict when this happens.
"""

import sys
from typing import Final

from syncline.core.lag.buckets import BYTES, Weighted
from syncline.lab.cliff_facts import CliffFacts, Kept, Round, hit_ratio, waits
from syncline.lab.cliff_page import page
from syncline.lab.cliff_readers import LATE, LOGS, ROUND_BYTES, Measures, Readers
from syncline.lab.errors import LabError
from syncline.lab.scenario import Scenario
from syncline.lab.stage import TOPIC, Outcome, Stage, Story
from syncline.lag_report.words import percent
from syncline.pictures.labels import size
from syncline.storage.machine.resident_pages import ResidentPages

TITLE: Final = "A slow consumer falls off the page cache"
ABOUT: Final = __doc__.partition("\n\n")[2].replace("\n", " ").strip()
BROKER: Final = 1
MEMORY_BYTES: Final = 16 << 20
DELAY_MS: Final = 50
KEPT_ROUNDS: Final = 16
AFTER_ROUNDS: Final = 8
ROUNDS_MAX: Final = 48
# The broker keeps the budget in steps: it releases pages when this much more was written to a log.
STEP_BYTES: Final = 8 << 20
# The curve knows distances only to a factor of two, and the budget is kept in steps.
ERROR_MAX: Final = 0.25

CONFIG: Final = {
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "60000",
    "page.cache.leader.budget.bytes": str(LOGS * MEMORY_BYTES),
}


def _play(stage: Stage, _: str) -> Outcome:
    if sys.platform != "linux":
        raise LabError("this scenario needs Linux: only there can a broker tell which pages stay in memory.")
    kept_words = f"the newest {size(MEMORY_BYTES)} of each of {LOGS} logs"
    with stage.step(f"A broker keeps {kept_words} in memory. A read from disk takes {DELAY_MS} ms."):
        stage.topic((BROKER,), ask=BROKER, partitions=LOGS)
        fault_id = stage.begin_fault(
            "disk-slow",
            (BROKER,),
            BROKER,
            f"reads from disk take {DELAY_MS} ms",
            topic=TOPIC,
            directions=["miss"],
            delay_ms=DELAY_MS,
        )
    readers = Readers(stage.cluster, BROKER)
    try:
        return _with_readers(stage, readers, fault_id)
    finally:
        readers.close()


def _with_readers(stage: Stage, readers: Readers, fault_id: str) -> Outcome:
    rounds: list[Round] = []
    with stage.step("Two consumers read at the tail. A third reads a quarter as fast, all of it from memory.") as step:
        while len(rounds) < KEPT_ROUNDS:
            rounds.append(_round(stage, readers))
        facts = CliffFacts(MEMORY_BYTES, DELAY_MS, _kept(readers.measures(), len(rounds)), rounds)
        stage.mark(BROKER, "the curve is recorded")
        half_share = facts.kept.distances.share_within(MEMORY_BYTES / 2, by_bytes=True)
        behind = f"{LATE} is {size(rounds[-1].distance_bytes)} behind in each log"
        step.notes.append(f"{size(facts.kept_round.written_bytes)} were written; {behind} and read nothing from disk")
        step.notes.append(
            f"its curve: half of the memory would have served {percent(half_share)} of its reads, so it will fall off "
            f"when {size(facts.predicted_written_bytes)} are written"
        )
    if rounds[-1].late_missed_bytes:
        raise LabError(f"{LATE} already reads from disk: this machine keeps less in memory than the broker asks for.")
    with stage.step("It keeps falling behind until what it reads next is no longer in memory.") as step:
        while not rounds[-1].late_missed_bytes:
            if len(rounds) == ROUNDS_MAX:
                raise LabError(f"{LATE} is {size(rounds[-1].distance_bytes)} behind and still reads from memory.")
            hits_before = _hits(stage, fault_id)
            rounds.append(_round(stage, readers))
        stage.mark(BROKER, f"{LATE} falls off")
        step.notes.append(
            f"{size(facts.measured_written_bytes)} were written; it is {size(rounds[-1].distance_bytes)} behind; "
            f"before that, {hits_before} reads waited for the disk"
        )
    with stage.step("All continue. Large fetches from memory wait for the threads that wait for the disk.") as step:
        while len(facts.after) < AFTER_ROUNDS:
            rounds.append(_round(stage, readers))
        for name, before, after in zip(
            ("its own fetches", "fetches of 4 MB at the tail", "fetches of 1 MB at the tail"),
            waits(facts.before),
            waits(facts.after),
            strict=True,
        ):
            step.notes.append(f"{name}: {after:.1f} ms, before {before:.1f} ms")
    stage.story.cliff = facts
    return _outcome(facts, hits_before)


def _round(stage: Stage, readers: Readers) -> Round:
    readers.write()
    gone_bytes = readers.written_bytes - MEMORY_BYTES
    if gone_bytes > 0 and not readers.written_bytes % STEP_BYTES:
        stage.until(
            lambda: _is_gone(stage, gone_bytes),
            "the system drops the pages that the broker releases; file systems in memory do not: set TMPDIR to another",
        )
    return readers.read()


def _is_gone(stage: Stage, size_bytes: int) -> bool:
    """Return whether this much of each log is no longer in memory, as the system reports it."""
    pages = ResidentPages()
    for index in range(LOGS):
        for path in stage.cluster.partition_directory(BROKER, TOPIC, index).glob("*.log"):
            with path.open("rb") as file:
                # Pages that were not read since must be gone; readers may have brought others in again.
                if pages.bytes_in_memory(file.fileno(), size_bytes - ROUND_BYTES, ROUND_BYTES) > 0:
                    return False
    return True


def _kept(measures: Measures, round_count: int) -> Kept:
    distances = Weighted(BYTES)
    for exponent, fetches, size_bytes in measures.buckets:
        distances.fetches[exponent - BYTES.first_exponent] = fetches
        distances.bytes[exponent - BYTES.first_exponent] = size_bytes
    return Kept(round_count, distances)


def _hits(stage: Stage, fault_id: str) -> int:
    """Return how many reads the disk fault has delayed."""
    rows = stage.cluster.control(BROKER).call("faults.list")["faults"]
    return sum(int(row["hits"]) for row in rows if row["id"] == fault_id)


def _outcome(facts: CliffFacts, hits_before: int) -> Outcome:
    before, after = waits(facts.before), waits(facts.after)
    was, now = hit_ratio(facts.before), hit_ratio(facts.after)
    text = (
        f"the share that {LATE} read from memory fell from {percent(was)} to {percent(now)} when "
        f"{size(facts.measured_written_bytes)} were written; its curve had said "
        f"{size(facts.predicted_written_bytes)}; fetches of 4 MB at the tail took {after.large_ms:.0f} ms "
        f"instead of {before.large_ms:.0f} ms, of 1 MB {after.small_ms:.0f} ms instead of "
        f"{before.small_ms:.0f} ms"
    )
    is_expected = (
        abs(facts.error) <= ERROR_MAX
        and was == 1
        and now <= 0.1
        and not hits_before
        and after.late_ms - before.late_ms >= DELAY_MS / 2
        and after.large_ms - before.large_ms >= DELAY_MS / 2
        and after.small_ms - before.small_ms < DELAY_MS / 2
    )
    return Outcome(text, is_expected)


def _page(stories: list[Story]) -> str:
    """Return the page of the last run."""
    facts = stories[-1].cliff
    if facts is None:
        raise LabError("the run measured nothing to show.")
    return page(TITLE, ABOUT, facts)


SCENARIO = Scenario(
    name="cache-cliff",
    title=TITLE,
    about=ABOUT,
    modes={"budget": "the broker itself releases all but the newest part of each log"},
    controller=BROKER,
    lanes={BROKER: "broker"},
    config=CONFIG,
    play=_play,
    page=_page,
)
