"""A data directory is for its user alone: directories 0700, files 0600.

Segments hold what users produced, `cluster.json` shows where brokers take requests,
and the secret of the control API lets its reader break the cluster on purpose.

New files are private twice: processes of a cluster set their umask at the start, and
code that creates files names the mode, since tools also write into the directory.
Former versions let every local user read; `tighten` ends that at the next start.
"""

import contextlib
import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

log = logging.getLogger("syncline.local")

DIRECTORY_MODE: Final = 0o700
FILE_MODE: Final = 0o600
_OTHERS: Final = 0o077
# What Syncline creates at the top of a data directory; a stroke, which no name contains, stands for a number. Anything
# else there is its user's business. Each start looks, and compiling a regular expression would take longer than that.
_OURS: Final = frozenset(
    [
        "broker-/",
        "logs",
        "lease-/.lock",
        "paused-/.json",
        "cluster.json",
        "cluster.tmp",
        "cluster.db",
        "cluster.db-wal",
        "cluster.db-shm",
        "cluster.db-journal",
        "ports.json",
        "metrics-ports.json",
        "configs.json",
        "supervisor.lock",
        "create.lock",
        "control.secret",
        "ready.json",
    ]
)


def keep_files_private() -> None:
    """From now on, this process and its children create files that only their user may read."""
    os.umask(_OTHERS)


def write_private(path: Path, text: str) -> None:
    """Write a file that only its user may read."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE)
    with open(descriptor, "w", encoding="utf-8") as file:  # noqa: PTH123 - a descriptor
        file.write(text)


def tighten(directory: Path) -> None:
    """Take away others' access to what Syncline has in a data directory; to the directory itself if nothing else is.

    A directory is tightened after everything in it, so that it shows whether there is still something to do: looking
    at thousands of partitions at each start would take long. Logs a warning about what belongs to another user.
    """
    # A link leads to a disk of its own, so what it leads to counts.
    entries = [Path(entry.path) for entry in os.scandir(directory)]
    ours = [entry for entry in entries if _is_ours(entry.name)]
    foreign: list[Path] = []
    for entry in ours:
        with contextlib.suppress(FileNotFoundError):
            _tighten_tree(entry, foreign)
    if len(ours) == len(entries):
        _tighten_one(directory, foreign)
    if foreign:
        log.warning(
            "%s and %s other files and directories belong to another user, and others may read them. "
            "Give them to the user of the cluster, with mode 0600 and 0700.",
            foreign[0],
            len(foreign) - 1,
        )


def _is_ours(name: str) -> bool:
    number = name.partition("-")[2].partition(".")[0]
    return (name.replace(number, "/", 1) if number.isdecimal() else name) in _OURS


def _tighten_tree(path: Path, foreign: list[Path]) -> None:
    status = path.stat()
    if not status.st_mode & _OTHERS:
        return
    if stat.S_ISDIR(status.st_mode):
        for each in _below(path):
            if not each.is_symlink():
                with contextlib.suppress(FileNotFoundError):
                    _tighten_one(each, foreign)
    _tighten_one(path, foreign)


def _below(path: Path) -> Iterator[Path]:
    """Yield everything in a directory, at any depth, a directory after what is in it."""
    for directory, _, files in os.walk(path, topdown=False):
        yield from (Path(directory, name) for name in files)
        if Path(directory) != path:
            yield Path(directory)


def _tighten_one(path: Path, foreign: list[Path]) -> None:
    mode = path.stat().st_mode
    if not mode & _OTHERS:
        return
    try:
        path.chmod(stat.S_IMODE(mode) & ~_OTHERS)
    except PermissionError:
        foreign.append(path)
