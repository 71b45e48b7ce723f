"""The tables that `make bench` writes: they change, and the page around them does not."""

import re

import pytest

from benchmarks import run
from benchmarks.pages import PAGE, with_table

TEXT = PAGE.read_text(encoding="utf-8")
# One figure for everything, so that both tables have all their rows.
FIGURES = dict.fromkeys(
    [
        *(claim.name for claim in run.CLAIMS),
        *(f"produce_{brokers}{part}" for brokers in (1, 3) for part in ("_cold", "_cpu")),
    ],
    77.0,
)
RESULTS = dict.fromkeys(run.SIDES, FIGURES)


def without_tables(text: str) -> str:
    """Return a page without what stands between the marks of `make bench`."""
    for name in run.tables(RESULTS):
        text = re.sub(f"(<!-- {name} -->).*(<!-- end of {name} -->)", r"\1\2", text, flags=re.DOTALL)
    return text


def test_new_tables_leave_the_rest_of_the_page_as_it_was() -> None:
    """Byte for byte: the text, the tables of other benchmarks, and the marks themselves."""
    written = TEXT
    for name, lines in run.tables(RESULTS).items():
        written = with_table(written, name, lines)

    assert without_tables(written) == without_tables(TEXT)
    assert written != TEXT
    assert len(without_tables(TEXT)) > len(TEXT) / 2


def test_page_has_the_rows_that_are_written_today() -> None:
    """Titles and headings of the page are those of `make bench`; only figures, date and machine differ."""
    written = TEXT
    for name, lines in run.tables(RESULTS).items():
        written = with_table(written, name, lines)

    assert re.findall(r"^\| ?([^|]*)\|", written, re.MULTILINE) == re.findall(r"^\| ?([^|]*)\|", TEXT, re.MULTILINE)
    assert len(written.splitlines()) == len(TEXT.splitlines())


def test_table_is_written_twice_without_a_trace_of_the_first() -> None:
    """Whatever the first one was."""
    once = with_table(TEXT, "claims", ["| new |"])

    assert with_table(with_table(TEXT, "claims", ["| old |", "", "| and more |"]), "claims", ["| new |"]) == once


def test_what_was_not_measured_keeps_its_table() -> None:
    """Without the figures of the page cache kept, that table is none of those that are written."""
    assert list(run.tables({**RESULTS, run.VARIANT: {}})) == ["claims"]


@pytest.mark.parametrize("text", ["", "<!-- claims -->", "<!-- end of claims -->\n<!-- claims -->"])
def test_page_without_a_place_for_a_table_is_refused(text: str) -> None:
    """Rather than to lose what was measured, or to cut what follows."""
    with pytest.raises(ValueError, match="needs the lines <!-- claims --> and <!-- end of claims -->"):
        with_table(text, "claims", [])
