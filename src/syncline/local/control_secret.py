"""The secret of the control API: a process that can read it in the data directory may use the verbs.

Every user of the machine can connect to the port on which a broker serves other brokers. The verbs break brokers on
purpose, so each call carries this secret, which only the directory's user can read.
"""

import contextlib
import os
from pathlib import Path
from typing import Final

from syncline.local.private_files import FILE_MODE

FILE_NAME: Final = "control.secret"
_SECRET_BYTES: Final = 32


def read_secret(directory: Path) -> str | None:
    """Return the secret of a data directory, None if it has none yet: an older Syncline started its brokers."""
    try:
        found = (directory / FILE_NAME).read_bytes()
    except FileNotFoundError:
        return None
    return found.decode("ascii") if len(found) == 2 * _SECRET_BYTES and found.isalnum() else None


def ensure_secret(directory: Path) -> str:
    """Return the secret of a data directory, which is made if it has none; of several processes, one makes it."""
    path = directory / FILE_NAME
    while (found := read_secret(directory)) is None:
        _discard_if_damaged(path)
        draft = directory / f"{FILE_NAME}.{os.urandom(4).hex()}.tmp"
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
        try:
            with open(descriptor, "w", encoding="ascii") as file:  # noqa: PTH123 - a descriptor
                file.write(os.urandom(_SECRET_BYTES).hex())
            _link(draft, path)
        finally:
            draft.unlink(missing_ok=True)
    return found


def _discard_if_damaged(path: Path) -> None:
    """Remove an empty file, or one that is no text: its secret would be none."""
    with contextlib.suppress(FileNotFoundError):
        if path.stat().st_size != 2 * _SECRET_BYTES or not path.read_bytes().isalnum():
            path.unlink()


def _link(draft: Path, path: Path) -> None:
    """Give the draft its name, unless another process has made the file meanwhile."""
    try:
        os.link(draft, path)
    except FileExistsError:
        return
    except OSError:
        # There are file systems without links.
        draft.replace(path)
