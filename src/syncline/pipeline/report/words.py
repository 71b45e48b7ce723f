"""The report in words: what a reader should remember, computed from the same facts as the pictures.

Every sentence has a number with its unit; a sentence without facts is left out. Delays are minutes,
instants are minutes and seconds since the journal began.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from syncline.pictures.labels import clock, seconds, size
from syncline.pipeline.report.facts import Facts, FaultMark, FlightCell, IsrInterval
from syncline.pipeline.report.flights_map import DEPARTURES_MIN, by_size, shown_hours
from syncline.pipeline.report.group_lag_picture import Moment, groups, moments

_SUFFERED: Final = {"kill": "killed", "pause": "paused", "stop": "stopped", "cut": "cut off", "restart": "restarted"}

# Clients find a broker that is back, and read what has waited, within this time.
AFTERMATH_MS: Final = 2_000
# Of a group at one moment.
_MEASURES: Final = ("lag_records", "lag_bytes", "staleness_ms")


def verdict(facts: Facts) -> str:
    """Return the overall result in one sentence."""
    if all(check.holds for check in facts.checks):
        suffered = f", although {_suffered(facts.faults)}" if facts.faults else ""
        return f"All {facts.record_count:,} records arrived exactly once and in order{suffered}."
    failed = sum(not check.holds for check in facts.checks)
    return f"{failed} of {len(facts.checks)} checks failed: see below what is missing or out of order."


def flights(facts: Facts) -> str:
    """Return what picture 1 shows."""
    hours = [hour for hour in shown_hours(facts.cells) if _departed(facts.cells, hour=hour) >= DEPARTURES_MIN]
    if not hours:
        return "There are no flights to show."
    best = min(hours, key=lambda hour: mean_delay(facts.cells, hour=hour))
    worst = max(hours, key=lambda hour: mean_delay(facts.cells, hour=hour))
    carriers = [
        code for code in by_size(facts.cells) if sum(c.departed_count for c in facts.cells if c.carrier == code) >= 500
    ]
    text = (
        f"Delay builds up over the day: flights scheduled at {best}:00 leave "
        f"{mean_delay(facts.cells, hour=best):.1f} minutes late on average, those at {worst}:00 "
        f"{mean_delay(facts.cells, hour=worst):.1f} minutes."
    )
    if len(carriers) > 1:
        late = max(carriers, key=lambda code: mean_delay(facts.cells, carrier=code))
        prompt = min(carriers, key=lambda code: mean_delay(facts.cells, carrier=code))
        text += (
            " Of the carriers with 500 departures or more, the mean delay is longest at "
            f"{facts.carrier_names.get(late, late)} ({mean_delay(facts.cells, carrier=late):.1f} minutes) and "
            f"shortest at {facts.carrier_names.get(prompt, prompt)} ({mean_delay(facts.cells, carrier=prompt):.1f})."
        )
    return text


def replication(facts: Facts) -> str:
    """Return what picture 2 shows."""
    outages = [item for item in facts.intervals if not item.in_isr]
    if not outages:
        return "Every replica was in the ISR all the time, and no partition changed its leader."
    worst = max(outages, key=lambda item: _length(facts, item))
    still = sum(item.end_ms is None for item in outages)
    ended = (
        "All of them are back in sync at the end."
        if not still
        else f"{still} of them {'is' if still == 1 else 'are'} still out at the end."
    )
    clean = "each time to a replica in sync" if all(c.clean for c in facts.leader_changes) else "not always in sync"
    return (
        f"Replicas left the ISR {times(episodes(facts))}, the longest for {seconds(_length(facts, worst))} "
        f"(broker {worst.replica}, partition {worst.partition}). {ended} "
        f"Leadership moved {times(len(facts.leader_changes))}, {clean}."
    )


def lag(facts: Facts) -> str:
    """Return what picture 3 shows."""
    timed = [sample for sample in facts.lag if sample.lag_ms is not None]
    if not timed:
        return "The journal holds no progress samples."
    worst = max(timed, key=lambda sample: sample.lag_ms or 0)
    calm = sorted(sample.lag_ms or 0 for sample in timed if sample.in_sync)
    median_ms = calm[len(calm) // 2] if calm else 0
    usual = (
        f" A follower in sync was usually {seconds(median_ms) if median_ms else 'under 1 ms'} behind." if calm else ""
    )
    records = max((sample.lag_records or 0 for sample in facts.lag), default=0)
    return (
        f"At worst, broker {worst.follower} was {seconds(worst.lag_ms or 0)} behind on partition {worst.partition} "
        f"(at {clock(worst.at_ms - facts.journal_start_ms)}), and the largest lag was {records:,} records.{usual}"
    )


def group_lag(facts: Facts) -> str:
    """Return what picture 4 shows: each group during each fault, and otherwise."""
    told = []
    for group in groups(facts):
        whole = moments(facts, group)
        during = [(fault, [each for each in whole if _is_during(facts, fault, each)]) for fault in facts.faults]
        hit = {each for _, some in during for each in some}
        sentences = [f"{_suffered([fault])}, it was up to {_behind(some)} behind" for fault, some in during if some]
        calm = [each for each in whole if each not in hit]
        if not sentences:
            told.append(f"Group {group} was up to {_behind(whole)} behind.")
            continue
        told.append(f"Group {group}: when {'; when '.join(sentences)}.")
        if calm:
            told.append(f"Without a fault it was usually {_usually(calm)} behind.")
    return " ".join(told) or "The journal holds no samples of consumers."


def longest_waits_ms(facts: Facts) -> list[int]:
    """Return the longest wait of the next record of each group."""
    return [max(each.staleness_ms for each in moments(facts, group)) for group in groups(facts)]


def _is_during(facts: Facts, fault: FaultMark, moment: Moment) -> bool:
    """Return whether a moment shows what a fault has done, until a while after its end or until the next fault."""
    if fault.end_ms is None:
        return moment.at_ms >= fault.start_ms
    later = [other.start_ms for other in facts.faults if other.start_ms > fault.start_ms]
    return fault.start_ms <= moment.at_ms <= max(fault.end_ms, min([fault.end_ms + AFTERMATH_MS, *later]))


def _behind(some: Sequence[Moment]) -> str:
    """Return the largest of each number: records, bytes, time."""
    return _amounts(*(max(getattr(each, name) for each in some) for name in _MEASURES))


def _usually(some: Sequence[Moment]) -> str:
    """Return the median of each number."""
    return _amounts(*(sorted(getattr(each, name) for each in some)[len(some) // 2] for name in _MEASURES))


def _amounts(lag_records: int, lag_bytes: int, staleness_ms: int) -> str:
    return f"{lag_records:,} records, {size(lag_bytes)} and {seconds(staleness_ms)}"


def episodes(facts: Facts) -> int:
    """Return how often replicas left the ISR; staying out under a new leader does not count again."""
    lanes: defaultdict[tuple[int, int], list[IsrInterval]] = defaultdict(list)
    for item in sorted(facts.intervals, key=lambda item: item.start_ms):
        lanes[item.partition, item.replica].append(item)
    return sum(
        not item.in_isr and (index == 0 or lane[index - 1].in_isr)
        for lane in lanes.values()
        for index, item in enumerate(lane)
    )


def times(count: int) -> str:
    """Return how often in words: never, once, twice, 9 times."""
    return ("never", "once", "twice")[count] if count < 3 else f"{count} times"


def mean_delay(cells: Sequence[FlightCell], *, carrier: str | None = None, hour: int | None = None) -> float:
    """Return how late flights left on average, 0 when none did."""
    delay = sum(c.delay_sum_min for c in cells if carrier in {None, c.carrier} and hour in {None, c.hour})
    departed = _departed(cells, carrier=carrier, hour=hour)
    return delay / departed if departed else 0.0


def _departed(cells: Sequence[FlightCell], *, carrier: str | None = None, hour: int | None = None) -> int:
    return sum(c.departed_count for c in cells if carrier in {None, c.carrier} and hour in {None, c.hour})


def _length(facts: Facts, item: IsrInterval) -> int:
    return (facts.journal_end_ms if item.end_ms is None else item.end_ms) - item.start_ms


def _suffered(faults: Sequence[FaultMark]) -> str:
    """Return the faults as part of a sentence: "broker 2 was killed and broker 3 was paused"."""
    sentences = []
    for fault in faults:
        target, verb = fault.target.replace("-", " "), _SUFFERED.get(fault.kind)
        sentences.append(f"{target} was {verb}" if verb else f"{target} suffered {fault.kind.replace('_', ' ')}")
    return sentences[0] if len(sentences) == 1 else f"{', '.join(sentences[:-1])} and {sentences[-1]}"
