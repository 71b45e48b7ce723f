"""Words and numbers on a drawing: short enough to fit, and placed so that they do not touch.

Without a screen no text can be measured: `CHARACTER_PX` is the average width of a character at 12 px in the usual
fonts. Durations are milliseconds.
"""

from typing import Final

CHARACTER_PX: Final = 6.4


def clock(ms: int) -> str:
    """Return a duration as m:ss."""
    return f"{ms // 60_000}:{ms // 1000 % 60:02d}"


def seconds(ms: float) -> str:
    """Return a duration with a unit that suits it: 340 ms, 3.4 s, 2 min 5 s."""
    if ms < 1000:
        return f"{ms:.0f} ms"
    if ms < 60_000:
        return f"{ms / 1000:.1f} s"
    return f"{int(ms) // 60_000} min {int(ms) // 1000 % 60} s"


def short(number: float) -> str:
    """Return a number in at most four characters: 950, 1.2k, 34k, 1.5M."""
    for limit, suffix in ((1e6, "M"), (1e3, "k")):
        if number >= limit:
            scaled = number / limit
            return f"{scaled:.0f}{suffix}" if scaled >= 10 else f"{scaled:.1f}".rstrip("0").rstrip(".") + suffix
    return f"{number:.0f}"


def size(size_bytes: float) -> str:
    """Return a number of bytes with a unit that suits it: 950 B, 1.2 kB, 34 MB."""
    for factor, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size_bytes >= factor:
            return f"{size_bytes / factor:.3g} {unit}"
    return f"{size_bytes:.0f} B"


def wrapped(text: str, characters: int) -> list[str]:
    """Return a text in lines of at most `characters`; a longer word gets its own line."""
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + len(word) >= characters:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


class Rows:
    """Two rows for labels along an axis: a label that would touch the previous one moves to the second row."""

    def __init__(self) -> None:
        self._first_taken_to = float("-inf")

    def row(self, x: float, width: float) -> int:
        """Return 0 or 1 for a label that begins at `x`; labels come from left to right."""
        assert width >= 0, f"a label {width} px wide"
        if x <= self._first_taken_to:
            return 1
        self._first_taken_to = x + width
        return 0
