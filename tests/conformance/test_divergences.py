"""The declared divergences and docs/divergences.md tell the same story."""

import re
from pathlib import Path

from tests.conformance.divergences import DIVERGENCES

PAGE = (Path(__file__).parents[2] / "docs" / "divergences.md").read_text()


def test_every_divergence_is_documented() -> None:
    """The pattern of its sequences stands on the page, in backticks."""
    missing = {each.sequence for each in DIVERGENCES if f"`{each.sequence}`" not in PAGE}

    assert missing == set()


def test_page_names_no_sequences_that_agree_with_kafka() -> None:
    """A pattern in the last column of a table is a declared divergence."""
    columns = [line.rsplit("|", 2)[1] for line in PAGE.splitlines() if line.startswith("|")]
    named = {pattern for column in columns for pattern in re.findall(r"`([a-z_]+(?:\.[a-z_*0-9]+)*\*?)`", column)}
    patterns = {each for each in named if "*" in each or re.search(r"\.v\d+$", each)}

    assert patterns
    assert patterns <= {each.sequence for each in DIVERGENCES}
