"""Sizes, rates and spans of time in the words that people type and read. 1 MB is 1,000,000 bytes."""

import math
import re
from typing import Final

from syncline.model.ids import NONE
from syncline.reassign.errors import PlanError

_FACTORS: Final = {"": 1, "k": 1_000, "m": 10**6, "g": 10**9, "t": 10**12}
_AMOUNT: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)b?(/s)?", re.IGNORECASE)
_SPAN: Final = re.compile(r"(?:(\d+)h)?\s*(?:(\d+)m(?:in)?)?\s*(?:(\d+)s?)?", re.IGNORECASE)


def parse_bytes(text: str, option: str) -> int:
    """Return the bytes (per second) of a text such as 1000000, 1MB or 500kB/s. Raises PlanError."""
    match = _AMOUNT.fullmatch(text.strip())
    if match is None:
        raise PlanError(f"{option} takes bytes, such as 1000000, 500kB or 1.5MB/s, not {text!r}")
    return round(float(match[1]) * _FACTORS[match[2].lower()])


def parse_span_s(text: str, option: str) -> int:
    """Return the seconds of a text such as 90s, 10m or 1h30m. Raises PlanError."""
    match = _SPAN.fullmatch(text.strip())
    seconds = (
        sum(int(part or 0) * unit for part, unit in zip(match.groups(), (3600, 60, 1), strict=True)) if match else 0
    )
    if seconds <= 0:
        raise PlanError(f"{option} takes a span of time, such as 90s, 10m or 1h30m, not {text!r}")
    return seconds


def parse_percent(text: str, option: str) -> int:
    """Return the number of a text such as 10% or 10, from 1 to 99. Raises PlanError."""
    digits = text.strip().removesuffix("%").strip()
    if not (digits.isascii() and digits.isdecimal() and 1 <= int(digits) <= 99):
        raise PlanError(f"{option} takes whole percents from 1% to 99%, not {text!r}")
    return int(digits)


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
    """Return 45 s, 83 min 20 s, 5 h 33 min, or never."""
    if math.isinf(seconds):
        return "never"
    whole = round(seconds)
    if whole < 60:
        return f"{seconds:.1f} s" if 0 < seconds < 10 and seconds != whole else f"{whole} s"
    if whole < 2 * 3600:
        return f"{whole // 60} min {whole % 60} s" if whole % 60 else f"{whole // 60} min"
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes % 60 else f"{minutes // 60} h"
