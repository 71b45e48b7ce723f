"""Durations of virtual time, in the ns in which it is counted."""

from typing import Final

MS: Final = 1_000_000
SECOND: Final = 1_000 * MS
