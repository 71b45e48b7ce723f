"""Text files that commands read and write, and their names, which may have any bytes."""

from pathlib import Path
from typing import Final

from syncline.local.layout import LocalClusterError

# Far more than the plan of the largest cluster, so that a device or a log given by mistake does not fill the memory.
CHARS_MAX: Final = 50_000_000
NAME_SHOWN_MAX: Final = 300


def text_of(file: Path) -> str:
    """Return the text of a file; `LocalClusterError` if it cannot be read."""
    try:
        with file.open(encoding="utf-8") as opened:
            text = opened.read(CHARS_MAX + 1)
    except UnicodeDecodeError:
        raise LocalClusterError(f"cannot read {named(file)}: it is no text in UTF-8") from None
    except OSError as error:
        raise LocalClusterError(f"cannot read {named(file)}: {error.strerror or error}") from None
    if len(text) > CHARS_MAX:
        raise LocalClusterError(f"cannot read {named(file)}: it has more than {CHARS_MAX:,} characters")
    return text


def named(file: Path) -> str:
    """Return the name of a file as text that can be printed and sent, whatever bytes it has; its end if it is long."""
    name = str(file)[-NAME_SHOWN_MAX:]
    return "".join(each if each.isprintable() else "?" for each in name)


def write_text(file: Path, text: str) -> None:
    """Write a text file; `LocalClusterError` if it cannot be written."""
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise LocalClusterError(f"cannot write {named(file)}: {error.strerror or error}.") from None


def check_place(file: Path) -> None:
    """Raise `LocalClusterError` if a file cannot be written there, before the work for it is done."""
    directory = file.absolute().parent
    try:
        why = "" if directory.is_dir() else f"there is no directory {named(directory)}"
        if file.is_dir():
            why = "it is a directory"
    except OSError as error:
        why = str(error.strerror)
    if why:
        raise LocalClusterError(f"cannot write {named(file)}: {why}.")
