"""Sizes, rates and spans of time in words."""

import math
from collections.abc import Callable

import pytest

from syncline.model.ids import NONE
from syncline.reassign.amounts import (
    at_rate,
    parse_bytes,
    parse_capacity,
    parse_percent,
    parse_span_s,
    rate_words,
    seconds_words,
    size_words,
    span_words,
)
from syncline.reassign.errors import PlanError


@pytest.mark.parametrize(
    ("text", "number"), [("1000000", 10**6), ("1MB", 10**6), ("1.5 MB/s", 1_500_000), ("500kB/s", 500_000), ("0", 0)]
)
def test_bytes_are_read(text: str, number: int) -> None:
    """As the tool's numbers, and with units."""
    assert parse_bytes(text, "--throttle") == number


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("10m", 600), ("1h30m", 5_400), ("4h", 14_400), ("45s", 45)]
)
def test_spans_are_read(text: str, seconds: int) -> None:
    """Hours, minutes, seconds, each with its unit."""
    assert parse_span_s(text, "--deadline") == seconds


def test_nonsense_is_refused_with_the_option_and_examples() -> None:
    """So that the next try succeeds."""
    with pytest.raises(PlanError, match=r"^--throttle takes bytes, such as 1000000"):
        parse_bytes("-5", "--throttle")
    with pytest.raises(PlanError, match=r"^--deadline takes a span of time"):
        parse_span_s("", "--deadline")
    with pytest.raises(PlanError, match=r"^--max-client-impact takes whole percents"):
        parse_percent("0%", "--max-client-impact")
    assert parse_percent("10%", "--max-client-impact") == 10


HUGE = "9" * 5_000
NONSENSE = ("", " ", "-5", "nan", "inf", "1e400", HUGE, f"-{HUGE}", "0x10", "１２", "\udcff", "\x1b[0m", "K", "5K5")


@pytest.mark.parametrize(
    ("parse", "texts"),
    [
        (parse_bytes, (*NONSENSE, "9" * 310, "9223372036854775808", "10000000TB", "9" * 25 + ".5GB")),
        (parse_capacity, (*NONSENSE, "0", "0.4", "9" * 310)),
        (parse_span_s, (*NONSENSE, "0", "0h0m", "45", "1h30", "99999999999999999h", f"{HUGE}s", "100000h")),
        (parse_percent, (*NONSENSE, "0", "100", "%", "9" * 310)),
    ],
)
def test_t43_numbers_that_mean_nothing_are_refused_in_a_short_sentence(
    parse: Callable[[str, str], int], texts: tuple[str, ...]
) -> None:
    """Python refuses to read thousands of digits, floats end at 1e308, requests at 2^63 - 1, and links are not 0."""
    for text in texts:
        with pytest.raises(PlanError, match=r"^--option takes ") as refused:
            parse(text, "--option")
        assert len(str(refused.value)) < 200
        assert str(refused.value).isprintable()


def test_highest_rate_of_kafka_is_read_exactly() -> None:
    """It is its word for unlimited, and one more than a float can tell from the next."""
    assert parse_bytes("9223372036854775807", "--rate") == 2**63 - 1
    assert parse_capacity("-1", "--link-capacity") == NONE


def test_amounts_are_short() -> None:
    """Three digits and a unit."""
    assert [size_words(each) for each in (0, 999, 1_000, 1_234_567, 999_960, 240e9, 1.2e12)] == [
        "0 B",
        "999 B",
        "1 kB",
        "1.23 MB",
        "1 MB",
        "240 GB",
        "1.2 TB",
    ]
    assert rate_words(1.2e6) == "1.2 MB/s"
    assert rate_words(math.inf) == "no bound"
    assert [at_rate(each) for each in (NONE, 0, 20_000_000)] == ["without a throttle", "at 0 B/s", "at 20 MB/s"]
    assert [seconds_words(each) for each in (3.2, 5_000)] == ["3 s", "5,000 s (83 min 20 s)"]
    assert [
        span_words(each) for each in (0.0, 0.01, 0.4, 45, 5_000, 20_000, 7_200, 172_700, 172_800, 720_000, math.inf)
    ] == [
        "0 s",
        "under 0.1 s",
        "0.4 s",
        "45 s",
        "83 min 20 s",
        "5 h 33 min",
        "2 h",
        "47 h 58 min",
        "2 days",
        "8 days 8 h",
        "never",
    ]
