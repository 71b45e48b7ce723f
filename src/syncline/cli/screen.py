"""What a person at a terminal reads: lines, tables, and a screen that is drawn again.

Names in them were chosen by clients, so every line goes through `say`, which lets no character control the terminal.
"""

import os
import sys
import time
from collections.abc import Sequence
from typing import Any, Final

from syncline.model.shown_names import columns_of, printable

_ANEW: Final = "\033[H\033[2J"


def say(*lines: str) -> None:
    """Print lines; what is not plain text in them is escaped, line breaks included."""
    for line in lines:
        print(printable(line))


def say_text(lines: Sequence[str]) -> None:
    """Print texts, each of one line or several, at once."""
    say(*"\n".join(lines).split("\n"))
    sys.stdout.flush()


def warn(*lines: str) -> None:
    """Print lines beside the command's result, which a program may read."""
    for line in lines:
        print(printable(line), file=sys.stderr)


def say_paragraphs(paragraphs: Sequence[str]) -> None:
    """Print paragraphs with an empty line between them."""
    for number, paragraph in enumerate(paragraphs):
        say(*[""] * bool(number), paragraph)


def print_table(headers: list[str], rows: list[list[Any]]) -> None:
    """Print rows under headers, in aligned columns."""
    cells = [headers, *[[printable(str(cell)) for cell in row] for row in rows]]
    widths = [max(map(columns_of, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        padded = (cell + " " * (width - columns_of(cell)) for cell, width in zip(row, widths, strict=True))
        say("  ".join(padded).rstrip())


def begin_again() -> None:
    """Begin the next picture of a command that watches: with the time of day, and on a terminal on an empty screen."""
    is_screen = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    print(f"{_ANEW if is_screen else ''}{time.strftime('%H:%M:%S')}")
