"""Questions about logs that the checks ask; a log is a tuple of (value, epoch)."""

Log = tuple[tuple[int, int], ...]


def is_prefix(shorter: Log, longer: Log) -> bool:
    """Return whether `longer` begins with all of `shorter`."""
    return longer[: len(shorter)] == shorter


def end_of_epoch(log: Log, epoch: int) -> int:
    """Return the offset at which the epochs up to `epoch` end: epochs never fall within a log."""
    end = len(log)
    while end and log[end - 1][1] > epoch:
        end -= 1
    return end


def disagree(one: Log, mark: int, other: Log, other_mark: int) -> bool:
    """Return whether two logs break S3.

    They do if they differ where both are committed, or below an offset at which
    both hold a record of the same epoch: one leader wrote it, after the same records.
    """
    both = min(mark, other_mark)
    if one[:both] != other[:both]:
        return True
    for offset in range(min(len(one), len(other)) - 1, -1, -1):
        if one[offset][1] == other[offset][1]:
            return one[: offset + 1] != other[: offset + 1]
    return False
