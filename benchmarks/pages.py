"""Tables on pages: each stands between two comments, and is replaced by the run that measured it.

`make bench` makes docs/performance.md of the notes, so both have the table.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.peers import ROOT

PAGES: Final = (ROOT / "benchmarks" / "notes.md", ROOT / "docs" / "performance.md")


def replace_table(name: str, lines: Sequence[str], pages: Sequence[Path] = PAGES) -> None:
    """Put lines where the pages have the table of this name. Raises RuntimeError if one has no place for it."""
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    for page in pages:
        before, found, rest = page.read_text(encoding="utf-8").partition(begin)
        _, ended, after = rest.partition(end)
        if not (found and ended):
            raise RuntimeError(f"{page} has no place for the table: it needs the lines {begin} and {end}")
        page.write_text("\n".join([before + begin, "", *lines, "", end + after]), encoding="utf-8")
        print(f"wrote {page.relative_to(ROOT)}")
