"""Tables on pages: each stands between two comments, and is replaced by the run that measured it.

The rest of a page is written by hand, and stays.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.peers import ROOT

PAGE: Final = ROOT / "docs" / "performance.md"


def replace_table(name: str, lines: Sequence[str], page: Path = PAGE) -> None:
    """Put lines where the page has the table of this name. Raises RuntimeError if it has no place for it."""
    try:
        text = with_table(page.read_text(encoding="utf-8"), name, lines)
    except ValueError as error:
        raise RuntimeError(f"{page} {error}") from None
    page.write_text(text, encoding="utf-8")
    print(f"wrote {page.relative_to(ROOT)}")


def with_table(text: str, name: str, lines: Sequence[str]) -> str:
    """Return the text of a page with these lines as its table of this name. Raises ValueError if it has none."""
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    before, found, rest = text.partition(begin)
    _, ended, after = rest.partition(end)
    if not (found and ended):
        raise ValueError(f"has no place for the table: it needs the lines {begin} and {end}")
    return "\n".join([before + begin, "", *lines, "", end + after])
