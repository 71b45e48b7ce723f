"""Values of options: text as a number, a flag, a duration or JSON; or one sentence that says what to write instead.

Units: as the option's name says. Numbers are bounded by what the Kafka protocol can carry.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, Final, NoReturn

from syncline.pipeline.errors import OptionError

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1

# A message quotes at most this much of a value.
_QUOTED_CHARACTERS_MAX: Final = 200

_MS_BY_UNIT: Final = {"us": 0.001, "ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION: Final = re.compile(r"([0-9]{1,12})\s*(us|ms|s|m|min|h|d)?")


def refuse(name: str, value: str, advice: str) -> NoReturn:
    """Raise `OptionError` for an option whose value cannot be used."""
    shown = value if len(value) <= _QUOTED_CHARACTERS_MAX else value[:_QUOTED_CHARACTERS_MAX] + "..."
    raise OptionError(f"option {name} cannot be {shown!r}: {advice}")


def number(written: str, most: int = LONG_MAX) -> int | None:
    """Return the digits as a whole number, `None` if they are something else or more than `most`."""
    text = written.strip()
    is_number = text.isascii() and text.isdigit() and len(text) <= len(str(most)) and int(text) <= most
    return int(text) if is_number else None


def count(options: Mapping[str, str], name: str, *, least: int = 1, most: int = LONG_MAX) -> int | None:
    """Return a whole number from `least` to `most`, `None` if the option was not given."""
    if name not in options:
        return None
    found = number(options[name], most)
    if found is None or found < least:
        bound = "" if most == LONG_MAX else f" and at most {most}"
        refuse(name, options[name], f"write a whole number {'above 0' if least else 'from 0 on'}{bound}")
    return found


def flag(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    """Return true or false."""
    written = options.get(name, str(default)).strip().lower()
    if written not in {"true", "false"}:
        refuse(name, options[name], "write true or false")
    return written == "true"


def duration_ms(options: Mapping[str, str], name: str) -> int | None:
    """Return a duration such as 90s, 15m or 2h, `None` if the option was not given; a bare number is milliseconds."""
    if name not in options:
        return None
    found = _DURATION.fullmatch(options[name].strip().lower())
    if found is None:
        refuse(name, options[name], "write a duration with its unit, such as 500ms, 30s, 15m or 2h")
    return int(int(found[1]) * _MS_BY_UNIT[found[2] or "ms"])


def json_object(name: str, written: str, example: str) -> dict[str, Any]:
    """Return the JSON object that an option holds."""
    try:
        content = json.loads(written)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        refuse(name, written, f"write {example}")
    return content


def integer(value: object) -> int:
    """Return a number of JSON as it is; raise `TypeError` if it is no whole number, `ValueError` if too large."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{value!r} is not a whole number")
    if abs(value) > LONG_MAX:
        raise ValueError(f"{value} is too large")
    return value


def partition_number(value: object) -> int:
    """Return a partition's number, from JSON or from a key of it; raise `TypeError` or `ValueError` if it is none."""
    found = number(value, INT_MAX) if isinstance(value, str) else integer(value)
    if found is None or not 0 <= found <= INT_MAX:
        raise ValueError(f"{value!r} is not a partition")
    return found
