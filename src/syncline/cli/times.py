"""Times on the command line: how they are given, and how they are shown.

A span of time always has its unit: a bare number could mean seconds, minutes or milliseconds.
"""

import re
from datetime import datetime
from typing import Final

from syncline.local.layout import LocalClusterError

DAY_MS: Final = 86_400_000
_SPAN: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)", re.ASCII)
_UNIT_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": DAY_MS}


def parse_span_ms(text: str) -> float | None:
    """Return the milliseconds of a span such as 500ms, 1.5s or 2m; None if this is none, as without a unit."""
    match = _SPAN.fullmatch(text.strip())
    return None if match is None else float(match[1]) * _UNIT_MS[match[2]]


def parse_since(text: str, now_ms: int) -> int:
    """Return the Unix time of a look-back or an ISO time."""
    span_ms = parse_span_ms(text)
    if span_ms is not None:
        return now_ms - int(min(span_ms, now_ms))
    try:
        return max(0, int(datetime.fromisoformat(text).timestamp() * 1_000))
    except (ValueError, OverflowError, OSError):
        raise LocalClusterError(
            f"--since takes a span such as 90s, 10m, 2h or 1d, or a time such as 2026-01-31T12:00:00, not {text!r}."
        ) from None


def time_of_day(unix_ms: int) -> str:
    """Return a Unix time as local time of day."""
    return datetime.fromtimestamp(unix_ms / 1_000).astimezone().strftime("%H:%M:%S.%f")[:-4]


def date_and_time(unix_ms: int) -> str:
    """Return a Unix time as local date and time."""
    return datetime.fromtimestamp(unix_ms / 1_000).astimezone().strftime("%Y-%m-%d %H:%M:%S.%f")[:-4]
