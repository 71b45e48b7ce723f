"""The first bad place of a log: a write that never finished, or damage.

One hard idea: the two look alike and demand the opposite. At the end of what a
power cut left, a bad batch was never acknowledged, and everything from it on is
cut off. In the middle of what was flushed, or of what a mere process crash
left, good records that were acknowledged lie behind it, so cutting there would
destroy them, and as leader this replica would spread the loss.

Two facts separate them: the recovery point (everything below it was flushed), and
whether the machine was started anew in between. Without a power cut no write is
lost, so nothing whole can lie behind something torn. After one, unflushed
writes may be there in any subset, so above the recovery point a hole followed by
good batches is an honest picture of a crash.

Source: studies of storage faults in replicated stores (damage taken for a torn tail).
"""

from dataclasses import dataclass
from typing import Final

from syncline.model.ids import Offset
from syncline.storage.errors import DamagedLogError

# What to do about a log that was refused.
ADVICE: Final = (
    "It is fetched anew by itself as soon as another replica leads the partition. If none can, stop the broker and put "
    "a good copy of the directory back, or delete the topic."
)


@dataclass(frozen=True, kw_only=True)
class Circumstances:
    """How the log was left, as far as its directory's checkpoints know."""

    is_clean: bool
    # False: the process died but the machine ran on, so every write is there.
    may_lack_writes: bool
    recovery_point: Offset
    log_start: Offset


@dataclass(frozen=True)
class Damage:
    """The first place of a log that cannot be what was written."""

    offset: Offset
    # In the file of its segment; None: everything in that file is fine, but the next segment does not follow.
    position: int | None
    reason: str
    # Whether the batch there is sound in itself: no write that never finished looks so.
    is_sound: bool = False


def judge(damage: Damage, circumstances: Circumstances, *, has_good_behind: bool) -> None:
    """Raise DamagedLogError if cutting the log at `damage` could destroy records that were promised."""
    if damage.offset < circumstances.recovery_point:
        raise DamagedLogError(
            f"Offset {damage.offset} was flushed (recovery point {circumstances.recovery_point}) but is damaged: "
            f"{damage.reason}. {ADVICE}"
        )
    if has_good_behind and not circumstances.may_lack_writes:
        raise DamagedLogError(
            f"Offset {damage.offset} is damaged and good records lie behind it, though no power was lost: "
            f"{damage.reason}. {ADVICE}"
        )


def check_flushed(directory: str, log_end: Offset, recovery_point: Offset) -> None:
    """Raise DamagedLogError if the log ends before what a flush has promised."""
    if log_end < recovery_point:
        raise DamagedLogError(
            f"{directory}: the log was flushed up to offset {recovery_point} but ends at {log_end}. {ADVICE}"
        )
