"""Times on the command line: a span has its unit, whichever option takes it."""

import pytest

from syncline.cli.times import DAY_MS, parse_since, parse_span_ms
from syncline.local.layout import LocalClusterError

NOW_MS = 1_767_268_800_000


@pytest.mark.parametrize(
    ("text", "span_ms"),
    [("500ms", 500), ("1.5s", 1_500), ("20 s", 20_000), ("2m", 120_000), ("2h", 7_200_000), ("1d", DAY_MS)],
)
def test_span_is_read_in_its_unit(text: str, span_ms: int) -> None:
    """From milliseconds to days; `--since` and the options of faults read alike."""
    assert parse_span_ms(text) == span_ms
    assert parse_since(text, NOW_MS) == NOW_MS - span_ms


@pytest.mark.parametrize("text", ["2", "1.5", "", " ", "s", "2 parsecs", "-2s", "１２s", "1h30m"])
def test_what_is_no_span_is_refused(text: str) -> None:
    """Guards: a fault took 2 for 2 s, while `why` refused 10."""
    assert parse_span_ms(text) is None
    with pytest.raises(LocalClusterError, match="--since takes a span such as 90s"):
        parse_since(text, NOW_MS)


def test_time_of_the_day_is_read_with_its_zone() -> None:
    """As ISO writes it."""
    assert parse_since("2026-01-01T12:00:00Z", 0) == NOW_MS
    assert parse_since("1900-01-01T00:00:00Z", 0) == 0
