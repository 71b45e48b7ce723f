"""A moving picture of moves, as text: a bar for each new replica, and what each broker copies against its throttle."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from syncline.reassign.amounts import rate_words, size_words, span_words
from syncline.reassign.doctor import BrokerView, PartView
from syncline.reassign.formulas import Part, Role
from syncline.reassign.progress import Row

WIDTH: Final = 30
_FULL: Final = "█"
_EIGHTHS: Final = " ▏▎▍▌▋▊▉"


def bar(done: float, total: float, width: int = WIDTH) -> str:
    """Return a bar of `width` characters, filled to an eighth of a character; full only if all is done."""
    assert width > 0, "a bar has a length"
    share = 1.0 if total <= 0 else min(max(done / total, 0.0), 1.0)
    eighths = int(share * width * 8)
    full, rest = divmod(eighths, 8)
    return (_FULL * full + (_EIGHTHS[rest] if full < width else "")).ljust(width)


def state_of(row: Row, brokers: Mapping[int, BrokerView]) -> str:
    """Return what a new replica does now."""
    if row.is_in_sync:
        return "in sync"
    if row.destination not in brokers or not brokers[row.destination].is_alive:
        return f"broker {row.destination} is down"
    if row.leader not in brokers or not brokers[row.leader].is_alive:
        return "no leader"
    for broker in (row.destination, row.leader):
        if brokers[broker].is_silent:
            return f"broker {broker} does not answer"
    if row.done_bytes == 0 and row.total_bytes > 0:
        return "waiting"
    return "copying" if row.remaining_bytes else "joining"


def is_known(row: Row, brokers: Mapping[int, BrokerView]) -> bool:
    """Return whether anybody says what a new replica has; once it is in sync, that is everything."""
    return row.is_in_sync or (row.destination in brokers and brokers[row.destination].answers)


def vague_parts(rows: Iterable[Row], brokers: Mapping[int, BrokerView]) -> set[Part]:
    """Return the parts of which nobody knows how much is left: what a copy has, or needs, is unknown."""
    vague = [row for row in rows if not row.is_in_sync and not (row.is_total_known and is_known(row, brokers))]
    return {part for row in vague for part in (Part(row.leader, Role.SENDING), Part(row.destination, Role.RECEIVING))}


def lines_of(
    rows: Sequence[Row],
    brokers: Mapping[int, BrokerView],
    parts: Mapping[Part, PartView],
    ends: Mapping[Part, float | None],
    *,
    rows_max: int = 40,
) -> list[str]:
    """Return the picture: replicas with most left first, at most `rows_max` of them; then brokers."""
    ordered = sorted(rows, key=lambda row: (-row.remaining_bytes, row.key, row.destination))
    shown = ordered[:rows_max]
    name_width = max((len(f"{row.key} -> {row.destination}") for row in shown), default=0)
    lines = []
    for row in shown:
        name = f"{row.key} -> {row.destination}".ljust(name_width)
        done = row.total_bytes if row.is_in_sync else min(row.done_bytes, row.total_bytes)
        share = 100.0 if row.total_bytes <= 0 else 100 * done / row.total_bytes
        told = f"{share:5.1f}" if row.is_total_known and is_known(row, brokers) else f"{'?':>5}"
        drawn = bar(done, row.total_bytes) if row.is_total_known else bar(0, 1)
        total = size_words(row.total_bytes) if row.is_total_known else "?"
        lines.append(f"{name} |{drawn}| {told} % of {total:>7}  {state_of(row, brokers)}")
    if len(ordered) > rows_max:
        lines.append(f"and {len(ordered) - rows_max} more replicas")
    vague = vague_parts(rows, brokers)
    for part, view in parts.items():
        measured = view.measured_bytes_per_s
        speed = "-" if measured is None else rate_words(measured)
        left = ends.get(part)
        end = "unknown" if left is None else span_words(left)
        remaining = "?" if part in vague else size_words(view.remaining_bytes)
        lines.append(
            f"broker {part.broker} {part.role:<9} {speed:>10} of {rate_words(view.quota_bytes_per_s)}, "
            f"{remaining} left, ends in {end}"
        )
    return lines
