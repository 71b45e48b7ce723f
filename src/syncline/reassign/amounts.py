"""Sizes, rates and spans of time in the words that people type and read. 1 MB is 1,000,000 bytes."""

import math
import re
from decimal import Decimal
from typing import Final

from syncline.model.ids import NONE
from syncline.reassign.errors import PlanError

_FACTORS: Final = {"": 1, "k": 1_000, "m": 10**6, "g": 10**9, "t": 10**12}
# No number that is meant has more digits, and Python refuses to read thousands of them.
_AMOUNT: Final = re.compile(r"(\d{1,30}(?:\.\d{1,30})?)\s*([kmgt]?)b?(/s)?", re.IGNORECASE | re.ASCII)
_SPAN: Final = re.compile(r"(?:(\d{1,12})h)?\s*(?:(\d{1,12})m(?:in)?)?\s*(?:(\d{1,12})s)?", re.IGNORECASE | re.ASCII)
_PERCENT: Final = re.compile(r"(\d{1,2})\s*%?", re.ASCII)
# Kafka's rates are 64-bit integers, and the highest one is its word for "unlimited".
BYTES_MAX: Final = 2**63 - 1
SPAN_S_MAX: Final = 10 * 365 * 86_400
_SHOWN_LENGTH_MAX: Final = 60


def parse_bytes(text: str, option: str) -> int:
    """Return the bytes (per second) of a text such as 1000000, 1MB or 500kB/s. Raises PlanError."""
    match = _AMOUNT.fullmatch(text.strip())
    if match is None:
        raise PlanError(f"{option} takes bytes, such as 1000000, 500kB or 1.5MB/s, not {quoted(text)}")
    # Exactly, as floats cannot tell the highest number from the one above it.
    number = int((Decimal(match[1]) * _FACTORS[match[2].lower()]).to_integral_value())
    if number > BYTES_MAX:
        raise PlanError(f"{option} takes at most {BYTES_MAX} B, not {quoted(text)}")
    return number


def parse_size(text: str, option: str) -> int:
    """Return the bytes of a text such as 1000000, 512MB or 1.5GB, which is no rate. Raises PlanError."""
    match = _AMOUNT.fullmatch(text.strip())
    if match is None or match[3]:
        raise PlanError(f"{option} takes a size, such as 512MB or 1.5GB, not {quoted(text)}")
    return parse_bytes(text, option)


def parse_capacity(text: str, option: str) -> int:
    """Return what a link carries per second, NONE for "-1", which says that nobody knows. Raises PlanError."""
    if text.strip() == str(NONE):
        return NONE
    capacity = parse_bytes(text, option)
    if not capacity:
        raise PlanError(f"{option} takes what a broker can send or receive, which is more than 0 B/s")
    return capacity


def parse_span_s(text: str, option: str) -> int:
    """Return the seconds of a text such as 90s, 10m or 1h30m. Raises PlanError."""
    match = _SPAN.fullmatch(text.strip())
    seconds = (
        sum(int(part or 0) * unit for part, unit in zip(match.groups(), (3600, 60, 1), strict=True)) if match else 0
    )
    if not 0 < seconds <= SPAN_S_MAX:
        what = "a span of time with its unit" if seconds <= 0 else "at most ten years"
        raise PlanError(f"{option} takes {what}, such as 90s, 10m or 1h30m, not {quoted(text)}")
    return seconds


def parse_percent(text: str, option: str) -> int:
    """Return the number of a text such as 10% or 10, from 1 to 99. Raises PlanError."""
    match = _PERCENT.fullmatch(text.strip())
    if match is None or not int(match[1]):
        raise PlanError(f"{option} takes whole percents from 1% to 99%, not {quoted(text)}")
    return int(match[1])


def quoted(text: str) -> str:
    """Return what somebody gave in quotes, on one line that anything can print, and not at any length."""
    shown = ascii(text) if not text.isprintable() else repr(text)
    return shown if len(shown) <= _SHOWN_LENGTH_MAX else f"{shown[:_SHOWN_LENGTH_MAX]}... ({len(text):,} characters)"


def size_words(size_bytes: float) -> str:
    """Return 12 B, 1.5 kB, 240 GB."""
    for factor, unit in ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (1_000, "kB")):
        # 999,960 B would be shown as 1e+03 kB, so a unit begins where three digits of the smaller one end.
        if abs(size_bytes) >= 0.9995 * factor:
            amount = size_bytes / factor
            return f"{amount:.3g} {unit}" if abs(amount) < 999.5 else f"{amount:,.0f} {unit}"
    return f"{size_bytes:.0f} B"


def rate_words(bytes_per_s: float) -> str:
    """Return 1.2 MB/s, or "no bound"."""
    return "no bound" if math.isinf(bytes_per_s) else f"{size_words(bytes_per_s)}/s"


def at_rate(bytes_per_s: int) -> str:
    """Return "at 1.2 MB/s", or for NONE "without a throttle"."""
    return "without a throttle" if bytes_per_s == NONE else f"at {rate_words(bytes_per_s)}"


def span_words(seconds: float) -> str:
    """Return under 0.1 s, 45 s, 83 min 20 s, 5 h 33 min, 8 days 8 h, or never."""
    if math.isinf(seconds):
        return "never"
    whole = round(seconds)
    if 0 < seconds < 0.05:
        return "under 0.1 s"
    if whole < 60:
        return f"{seconds:.1f} s" if 0 < seconds < 10 and seconds != whole else f"{whole} s"
    if whole < 2 * 3600:
        return f"{whole // 60} min {whole % 60} s" if whole % 60 else f"{whole // 60} min"
    minutes = round(seconds / 60)
    if minutes < 2 * 24 * 60:
        return f"{minutes // 60} h {minutes % 60} min" if minutes % 60 else f"{minutes // 60} h"
    hours = round(minutes / 60)
    return f"{hours // 24:,} days {hours % 24} h" if hours % 24 else f"{hours // 24:,} days"


def seconds_words(seconds: float) -> str:
    """Return 45 s, or 5,000 s (83 min 20 s)."""
    whole, words = f"{seconds:,.0f} s", span_words(round(seconds))
    return whole if whole == words else f"{whole} ({words})"
