"""Which names a topic may have.

Names become directory names, hence the few characters and the length. "." and "_" count as the same in metric names,
so two topics may not differ by them alone; but two such names within one request both pass, as in Kafka.
Source: Kafka's Topic.validate, KIP-4.
"""

import re
from collections.abc import Iterable
from typing import Final

NAME_LENGTH_MAX: Final = 249

_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+\Z")


def what_is_wrong(name: str) -> str | None:
    """Return why `name` is not a legal topic name in Kafka's words, None if it is legal."""
    if not name:
        return "the empty string is not allowed"
    if name in {".", ".."}:
        return f"'{name}' is not allowed"
    if len(name) > NAME_LENGTH_MAX:
        return f"the length of '{name}' is longer than the max allowed length {NAME_LENGTH_MAX}"
    if _LEGAL.match(name) is None:
        return f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None


def colliding(name: str, existing: Iterable[str]) -> str | None:
    """Return the first existing topic whose name differs from `name` by "." and "_" alone."""
    if "." not in name and "_" not in name:
        return None
    folded = name.replace(".", "_")
    return next((other for other in existing if other != name and other.replace(".", "_") == folded), None)
