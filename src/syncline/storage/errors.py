"""How storage refuses, and how it fails.

One hard idea: after a write error the file may hold anything, so the log is
offline until the broker restarts and recovers it (`LogOfflineError`). A full
disk is the exception: the bytes that were written can be cut off again, so the
log is as it was, and the producer gets the reason.

Source: KAFKA-10778 (log fenced after a write error), the "fsyncgate" reports
(a second fsync succeeds although the first one lost the pages).
"""

import errno
from typing import Final, NamedTuple

from syncline.model.errors import ErrorCode
from syncline.model.impairments import Refusal

# No room, no quota, or the file size limit of the process: what is stored is intact.
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_NO_DESCRIPTOR: Final = frozenset({errno.EMFILE, errno.ENFILE})


class StorageError(Exception):
    """The log could not do what its caller wanted; `code` goes on the wire."""

    code: ErrorCode = ErrorCode.KAFKA_STORAGE_ERROR


class DiskFullError(StorageError):
    """There is no room. Nothing was stored; the log works again as soon as there is room."""


class NoDescriptorError(StorageError):
    """Too many files are open. Nothing was stored; the log works again as soon as one is closed."""


class LogOfflineError(StorageError):
    """An I/O error took this log offline; only a restart, which recovers the log, brings it back."""


class WrongOwnerError(StorageError):
    """The data directory belongs to another node or cluster: a mistake of the operator, not of the disk."""


class DamagedLogError(StorageError):
    """The disk lacks what was promised to be there; cutting the log would lose good records."""


class CorruptRecordsError(StorageError):
    """A leader's answer is damaged. Nothing was stored; fetch again."""

    code = ErrorCode.CORRUPT_MESSAGE


class UnexpectedOffsetError(StorageError):
    """A leader's answer begins below the log end: the two logs do not match, and guessing would fork them."""


class DiskRefusal(NamedTuple):
    """Why a write was refused although nothing is broken, and the error that showed it."""

    refusal: Refusal
    error: OSError


def refusal_of(error: BaseException) -> DiskRefusal | None:
    """Return why the disk refused, None if something is broken; for storage's own errors, by their cause."""
    if isinstance(error, DiskFullError | NoDescriptorError):
        cause = error.__cause__
        known = cause if isinstance(cause, OSError) else OSError(errno.ENOSPC, str(error))
        return DiskRefusal(Refusal.NO_ROOM if isinstance(error, DiskFullError) else Refusal.NO_DESCRIPTORS, known)
    if isinstance(error, OSError) and is_full(error):
        return DiskRefusal(Refusal.NO_ROOM, error)
    if isinstance(error, OSError) and is_out_of_descriptors(error):
        return DiskRefusal(Refusal.NO_DESCRIPTORS, error)
    return None


def is_full(error: OSError) -> bool:
    """Return whether `error` says that there is no room."""
    return error.errno in _FULL


def is_out_of_descriptors(error: OSError) -> bool:
    """Return whether `error` says that too many files are open, which harms nothing that is stored."""
    return error.errno in _NO_DESCRIPTOR
