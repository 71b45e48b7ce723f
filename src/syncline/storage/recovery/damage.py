"""The first bad place in a log: an unfinished write, or damage.

One hard idea: the two look alike and demand the opposite. At the end of what a
power cut left, a bad batch was never acknowledged, and recovery cuts the log
there. In the middle of what was flushed, or of what a process crash left,
acknowledged records lie behind the bad batch. Cutting there would destroy them,
and as leader this replica would spread the loss.

Two facts tell them apart: the recovery point (everything below it was flushed),
and whether the machine has rebooted since. Without a power cut no write is
lost, so no whole batch can lie behind a torn one, and a torn one is cut short:
a batch that is all there with a wrong checksum was acknowledged and damaged
later, also at the very end of the log. After a power cut, any subset
of the unflushed writes may have survived, so above the recovery point a hole
followed by good batches is what a crash may leave.

Source: studies of storage faults in replicated stores (damage taken for a torn tail).
"""

from typing import Final, NamedTuple

from syncline.model.ids import Offset
from syncline.storage.errors import DamagedLogError

# What to do about a log that was refused.
ADVICE: Final = (
    "The broker fetches it again as soon as another replica leads the partition; if none does, it puts back what is "
    "missing from any copy that another broker has. If none has one, stop the broker and restore a good copy of the "
    "directory, or delete the topic."
)


class Circumstances(NamedTuple):
    """How the last process left the log, according to the checkpoints of its directory."""

    is_clean: bool
    # False: the process died but the machine did not, so every write is there.
    may_lack_writes: bool
    recovery_point: Offset
    log_start: Offset


class Damage(NamedTuple):
    """The first place in a log that cannot be what was written."""

    offset: Offset
    # In the segment's file; None: the file is fine, but the next segment does not begin at its end.
    position: int | None
    reason: str
    # Whether the batch there is sound in itself; an unfinished write never leaves a sound batch.
    is_sound: bool = False


def judge(damage: Damage, circumstances: Circumstances, *, has_good_behind: bool, is_unfinished: bool) -> None:
    """Raise DamagedLogError if cutting the log at `damage` could destroy acknowledged records.

    `is_unfinished`: what is there may be the begin of a batch whose write was interrupted.
    """
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
    if not is_unfinished and not circumstances.may_lack_writes:
        raise DamagedLogError(
            f"Offset {damage.offset} is damaged: its write had ended, and no power was lost: {damage.reason}. {ADVICE}"
        )


def check_flushed(directory: str, log_end: Offset, recovery_point: Offset) -> None:
    """Raise DamagedLogError if the log ends below its recovery point."""
    if log_end < recovery_point:
        raise DamagedLogError(
            f"{directory}: the log was flushed up to offset {recovery_point} but ends at {log_end}. {ADVICE}"
        )
