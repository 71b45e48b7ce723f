"""How storage refuses, and how it fails.

One hard idea: a refusal is never damage. After a write error the file may hold
anything, so the log is offline until the broker restarts and recovers it
(`LogOfflineError`). But a disk without room, and a process without descriptors,
only refuse: what is stored is as it was, and the same may succeed a moment
later. So whatever was refused is tried again, no log goes offline for it, no log
counts as damaged for it, and no broker ends for it. `refusal_of` is the one place
that tells the two apart. A sync that failed is no refusal, whatever its number.

Source: KAFKA-10778 (log fenced after a write error), the "fsyncgate" reports
(a second fsync succeeds although the first one lost the pages).
"""

import errno
from typing import Final, NamedTuple

from syncline.model.errors import ErrorCode
from syncline.model.impairments import Refusal
from syncline.storage.disk import BrokenFileError

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


class ChangedRecordsError(CorruptRecordsError):
    """A leader's answer has other records than it says: its log was cut and written anew. Nothing was stored."""


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
    if not isinstance(error, OSError) or isinstance(error, BrokenFileError):
        return None
    if error.errno in _FULL:
        return DiskRefusal(Refusal.NO_ROOM, error)
    if error.errno in _NO_DESCRIPTOR:
        return DiskRefusal(Refusal.NO_DESCRIPTORS, error)
    return None


def is_refusal(error: BaseException) -> bool:
    """Return whether the disk only refused: what is stored is as it was, and the same may succeed later."""
    return refusal_of(error) is not None


def storage_error(error: OSError, message: str) -> StorageError:
    """Return the StorageError to raise from `error`: a refusal stays one.

    It has its cause already: in compiled modules `raise ... from` does not set it.
    """
    cause = refusal_of(error)
    text = f"{message}: {error.strerror}"
    if cause is None:
        found = StorageError(text)
    else:
        found = DiskFullError(text) if cause.refusal is Refusal.NO_ROOM else NoDescriptorError(text)
    found.__cause__ = error
    return found
