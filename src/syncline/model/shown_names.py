"""Names that clients have chosen, as text to show: they may have any characters, and any length.

A client id or a group is what a client says it is. A terminal obeys some characters: an escape sequence clears the
screen or renames the window, and a mark for text from right to left reverses what stands behind it. So a character that
would not be printed as itself is shown as its escape. JSON has names as they are.
"""

import unicodedata
from typing import Final

# More than the names that Kafka's clients and frameworks make of a topic, a thread and a number.
LENGTH_MAX: Final = 64
ELLIPSIS: Final = "…"
_WIDE: Final = frozenset("WF")
# Marks that stand on the character before them.
_MARKS: Final = frozenset(("Mn", "Me"))


def printable(text: str) -> str:
    r"""Return text without characters that a terminal obeys: they are escapes such as \x1b, \n or \u202e."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def shown_name(name: str) -> str:
    """Return a name as printable text of at most `LENGTH_MAX` characters: of a longer one its beginning and its end.

    Long names of one application often differ at the end alone.
    """
    # A name of a megabyte is not escaped whole to show 64 characters of it: each character is one at least.
    shown = printable(name if len(name) <= 2 * LENGTH_MAX else name[:LENGTH_MAX] + name[-LENGTH_MAX:])
    if len(shown) <= LENGTH_MAX and len(name) <= 2 * LENGTH_MAX:
        return shown
    end_length = (LENGTH_MAX - len(ELLIPSIS)) // 2
    return shown[: LENGTH_MAX - len(ELLIPSIS) - end_length] + ELLIPSIS + shown[-end_length:]


def columns_of(text: str) -> int:
    """Return how many columns of a terminal printable text takes."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.category(each) in _MARKS else 2 if unicodedata.east_asian_width(each) in _WIDE else 1
        for each in text
    )
