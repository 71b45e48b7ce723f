"""Disks that a power cut may leave, derived from a recorded stream of operations.

Of the operations before the power cut, those that were synced are certain; of
the others, which wait in caches, any subset may have arrived, in order. The
images tried: none, all, every prefix, all but one of the last eight, random
subsets; the last write torn at several bytes; and each of the last writes
present in size with zeros or garbage instead of data from byte 0, 8, 16 or 64 on.

Source: section 9 of the verification plan; ALICE (Pillai et al., OSDI 2014).
"""

import random
from collections.abc import Callable, Iterator, Sequence

from tests.storage.recording_disk import Image, Link, Mark, Move, Op, Sync, SyncDirectory, Truncate, Unlink, Write

TORN_AT_BYTES = (1, 7, 8, 512, 4096)
# The last is behind a batch's header: a page may end anywhere, and then only the checksum shows it.
BAD_FROM_BYTES = (0, 8, 16, 64)
RANDOM_SUBSETS = 12
LAST_WRITES = 6
LAST_LEFT_OUT = 8


class Cut:
    """A power cut after `ops[:length]`: what is certain, and what may have arrived."""

    def __init__(self, base: Image, ops: Sequence[Op], *, is_kind: bool) -> None:
        self.certain: list[Op] = []
        self.pending: list[Op] = []
        waiting: list[Op] = []
        for op in ops:
            if isinstance(op, Mark):
                continue
            if isinstance(op, Sync | SyncDirectory):
                waiting = self._settle(waiting, op, is_kind=is_kind)
            else:
                waiting.append(op)
        self.pending = waiting
        self._settled = base.copy()
        for op in self.certain:
            self._settled.apply(op)

    def _settle(self, waiting: list[Op], sync: Sync | SyncDirectory, *, is_kind: bool) -> list[Op]:
        left = []
        for op in waiting:
            (self.certain if _is_covered(op, sync, is_kind=is_kind) else left).append(op)
        return left

    def image(self, arrived: Sequence[Op]) -> Image:
        """Return the disk on which all that is certain and `arrived` happened."""
        image = self._settled.copy()
        for op in arrived:
            image.apply(op)
        return image


def _is_covered(op: Op, sync: Sync | SyncDirectory, *, is_kind: bool) -> bool:
    if isinstance(op, Write | Truncate):
        return isinstance(sync, Sync) and op.inode == sync.inode
    if isinstance(sync, Sync):
        return is_kind and isinstance(op, Link) and op.inode == sync.inode
    if isinstance(op, Move):
        # A rename between two directories needs one of them here; the logs rename within one.
        return sync.inode in (op.directory, op.target_directory)
    return isinstance(op, Link | Unlink) and op.directory == sync.inode


def images(
    base: Image,
    ops: Sequence[Op],
    rng: random.Random,
    *,
    is_kind: bool = False,
    wants: Callable[[], bool] = lambda: True,
) -> Iterator[Image]:
    """Yield the disks that a power cut after `ops` may leave: of each, `wants` is asked before it is made."""
    cut = Cut(base, ops, is_kind=is_kind)
    for arrived in _arrivals(cut.pending, rng):
        if wants():
            yield cut.image(arrived)


def one_image(base: Image, ops: Sequence[Op], rng: random.Random, choice: random.Random) -> Image:
    """Return one of these disks."""
    cut = Cut(base, ops, is_kind=False)
    return cut.image(choice.choice(_arrivals(cut.pending, rng)))


def _arrivals(pending: list[Op], rng: random.Random) -> list[list[Op]]:
    """Return each set of operations that may have arrived of those that wait in caches."""
    return [*_subsets(pending, rng), *_bad_writes(pending, rng)]


def _subsets(pending: list[Op], rng: random.Random) -> Iterator[list[Op]]:
    for length in range(len(pending) + 1):
        yield pending[:length]
    for left_out in range(max(0, len(pending) - LAST_LEFT_OUT), len(pending)):
        yield pending[:left_out] + pending[left_out + 1 :]
    if len(pending) > 2:
        for _ in range(RANDOM_SUBSETS):
            yield [op for op in pending if rng.random() < 0.5]


def _bad_writes(pending: list[Op], rng: random.Random) -> Iterator[list[Op]]:
    writes = [number for number, op in enumerate(pending) if isinstance(op, Write)]
    if writes:
        last = pending[writes[-1]]
        assert isinstance(last, Write), "the list holds the places of writes"
        for torn in sorted({*TORN_AT_BYTES, len(last.data) - 1}):
            if 0 < torn < len(last.data):
                replaced = last._replace(data=last.data[:torn])
                yield [*pending[: writes[-1]], replaced, *pending[writes[-1] + 1 :]]
    for number in writes[-LAST_WRITES:]:
        op = pending[number]
        assert isinstance(op, Write), "the list holds the places of writes"
        for start in BAD_FROM_BYTES:
            length = len(op.data) - start
            if length <= 0:
                continue
            for bad in (bytes(length), rng.randbytes(length)):
                replaced = op._replace(data=op.data[:start] + bad)
                yield [*pending[:number], replaced, *pending[number + 1 :]]
