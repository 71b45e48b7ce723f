"""When an offset was appended, from a sparse index, and how long ago that is.

One hard idea: what makes a sparse index exact is why an entry is *missing*. The leader writes one for each batch that
comes at least a step after the last entry. A batch without an entry therefore came less than a step after its floor
entry, and not after the next one; the middle of that range is wrong by half a step at most.

That holds where the index is whole. Entries that were lost in a crash leave a gap, and only the neighbours bound what
lies in it; such a time is marked as estimated.

Units: ms, Unix, of the leader's wall clock; it never goes back in an index, because entries take the maximum.
"""

from typing import Final, NamedTuple

from syncline.model.ids import Offset

STEP_MS: Final = 250


_make: Final = tuple.__new__  # A named tuple's own constructor takes three times as long.


class TimeFound(NamedTuple):
    """When an offset was appended."""

    append_ms: int
    is_estimated: bool


def entry_time(last_ms: int, now_ms: int) -> int:
    """Return the time of the next entry: now, or that of the last one if the wall clock went back since."""
    return max(last_ms, now_ms)


def time_found(
    floor_ms: int, next_ms: int | None, *, is_entry: bool, is_whole: bool = True, step_ms: int = STEP_MS
) -> TimeFound:
    """Return when a batch was appended whose floor entry is `floor_ms`; `next_ms` is the entry behind it, if any.

    `is_entry`: the floor entry is that of the batch itself. `is_whole`: no entry between the two was lost.
    """
    assert next_ms is None or floor_ms <= next_ms, f"times fall from {floor_ms} to {next_ms}"
    if is_entry:
        return TimeFound(floor_ms, is_estimated=False)
    if not is_whole:
        return TimeFound(floor_ms if next_ms is None else (floor_ms + next_ms) // 2, is_estimated=True)
    latest_ms = floor_ms + step_ms if next_ms is None else min(floor_ms + step_ms, next_ms)
    return _make(TimeFound, ((floor_ms + latest_ms) // 2, False))


def staleness_ms(first_unread: Offset, end: Offset, append_ms: int, now_ms: int) -> int:
    """Return for how long the next record has waited for its group; 0 if there is none below `end`.

    Never negative: a leader's clock may be behind that of the leader before it.
    """
    return max(0, now_ms - append_ms) if first_unread < end else 0
