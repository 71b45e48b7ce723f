"""What commands about lag share: answers that come in pages, and how their numbers are shown."""

from typing import Any, Final

from syncline.cli.target import SILENT_S
from syncline.explain.words.phrases import span

PAGE: Final = 500
UNKNOWN: Final = "-"


def pages_of(control: Any, verb: str, **fields: Any) -> list[dict[str, Any]]:
    """Return all pages of an answer."""
    pages = [control.call(verb, timeout_s=SILENT_S, count=PAGE, **fields)]
    while pages[-1].get("next") is not None:
        pages.append(control.call(verb, timeout_s=SILENT_S, count=PAGE, **{**fields, "from": pages[-1]["next"]}))
    return pages


def number(value: int | None) -> str:
    """Return a number with separated thousands; a dash if it is unknown."""
    return UNKNOWN if value is None else f"{value:,}"


def duration(duration_ms: int | None) -> str:
    """Return a duration in a readable unit."""
    return UNKNOWN if duration_ms is None else span(duration_ms)


def seconds(value: float | str | None) -> str:
    """Return a number of seconds in a readable unit; it may be infinite, or over."""
    if value is None or isinstance(value, str):
        return value or UNKNOWN
    return "now" if value <= 0 else span(round(value * 1_000))
