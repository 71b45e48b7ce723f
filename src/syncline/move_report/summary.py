"""The report as a few lines for a terminal, and as fields for scripts."""

from typing import Any, Final

from syncline.move_report import words
from syncline.move_report.facts import Facts, PartFacts
from syncline.move_report.frame import since
from syncline.move_report.levels import copied_s, mean_rate, used_share, worst_share
from syncline.reassign.amounts import rate_words, span_words

PARTS_MAX: Final = 12
HELD_MAX: Final = 8


def lines_of(facts: Facts) -> list[str]:
    """Return the lines: the result, each broker, what held the move back, progress, clients."""
    lines = [words.verdict(facts), words.setting(facts), ""]
    width = max((len(part.title) for part in facts.parts), default=0)
    busiest = sorted(facts.parts, key=lambda part: -sum(part.rates))[:PARTS_MAX]
    lines += [_part(facts, part, width) for part in facts.parts if part in busiest]
    if len(facts.parts) > PARTS_MAX:
        lines.append(f"and {words.counted(len(facts.parts) - PARTS_MAX, 'broker')} that copied less")
    if facts.held_back:
        lines += ["", "What held it back:"]
        lines += [
            f"  {since(each.start_ms - facts.started_ms)} to {since(each.end_ms - facts.started_ms)}  {each.sentence}"
            for each in facts.held_back[:HELD_MAX]
        ]
        if len(facts.held_back) > HELD_MAX:
            lines.append(f"  and {len(facts.held_back) - HELD_MAX} more times; --json lists all")
    return [*lines, "", words.progress(facts), words.waits(facts)]


def _part(facts: Facts, part: PartFacts, width: int) -> str:
    line = f"{part.title:<{width}}  {rate_words(mean_rate(part)):>9} for {span_words(round(copied_s(part)))}"
    share, worst = used_share(part), worst_share(part, facts.start_ms, facts.bin_ms)
    if share is not None:
        line += f", {100 * share:.0f} % of its throttle"
    if worst is not None:
        line += f", at most {100 * worst:.0f} % in 10 s"
    return line


def fields_of(facts: Facts) -> dict[str, Any]:
    """Return the facts for scripts: times in Unix milliseconds, rates in bytes per second, a value per interval."""
    return {
        "move": facts.move_id or None,
        "name": facts.name,
        "ending": facts.ending.value,
        "started_ms": facts.started_ms,
        "ended_ms": facts.ended_ms,
        "copied_bytes": facts.copied_bytes,
        "throttle": [step._asdict() for step in facts.steps],
        "intervals": {"start_ms": facts.start_ms, "length_ms": facts.bin_ms},
        "brokers": [
            {
                "broker": each.part.broker,
                "role": each.part.role.value,
                "mean_bytes_per_s": round(mean_rate(each)),
                "share_of_throttle": used_share(each),
                "highest_share_in_10_s": worst_share(each, facts.start_ms, facts.bin_ms),
                "held_share": each.held_share,
                "bytes_per_s": [round(rate) for rate in each.rates],
                "keep_up_bytes_per_s": [round(rate) for rate in each.keep_up],
                "quota_bytes_per_s": list(each.quotas),
            }
            for each in facts.parts
        ],
        "replicas": [
            {
                "topic": copy.key.topic,
                "partition": copy.key.partition,
                "destination": copy.destination,
                "started_ms": copy.started_ms,
                "joined_ms": copy.joined_ms,
                "ending": copy.ending.value,
                "copied_bytes": copy.copied_bytes,
                "progress": [row._asdict() for row in copy.progress],
            }
            for copy in facts.copies
        ],
        "held_back": [
            {
                "from_ms": each.start_ms,
                "until_ms": each.end_ms,
                "broker": each.broker,
                "role": each.role,
                "sentence": each.sentence,
            }
            for each in facts.held_back
        ],
        "acknowledgements": [wait._asdict() for wait in facts.waits],
        "words": {"progress": words.progress(facts), "rates": words.rates(facts), "clients": words.waits(facts)},
    }
