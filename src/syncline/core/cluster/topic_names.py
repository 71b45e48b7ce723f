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


class Collisions:
    """The existing topics, by what their names have in common with those that differ by "." and "_" alone.

    The index is made with the first name that needs it: a request may name thousands of topics, among thousands.
    """

    __slots__ = ("_existing", "_folded")

    def __init__(self, existing: Iterable[str]) -> None:
        self._existing = existing
        self._folded: dict[str, list[str]] | None = None

    def of(self, name: str) -> str | None:
        """Return the first existing topic whose name differs from `name` by "." and "_" alone."""
        if "." not in name and "_" not in name:
            return None
        if self._folded is None:
            self._folded = {}
            for other in self._existing:
                if "." in other or "_" in other:
                    self._folded.setdefault(other.replace(".", "_"), []).append(other)
        return next((other for other in self._folded.get(name.replace(".", "_"), ()) if other != name), None)
