"""Times on the command line: how they are given, and how they are shown."""

import re
from datetime import datetime
from typing import Final

from syncline.local.layout import LocalClusterError

DAY_MS: Final = 86_400_000
_SINCE: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_UNIT_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": DAY_MS}


def parse_since(text: str, now_ms: int) -> int:
    """Return the Unix time of a look-back or an ISO time."""
    match = _SINCE.fullmatch(text)
    if match is not None:
        return now_ms - int(min(float(match[1]) * _UNIT_MS[match[2]], now_ms))
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
