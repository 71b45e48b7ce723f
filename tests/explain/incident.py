"""What an incident is: what brokers would report, and the cause that a diagnosis must name."""

from collections.abc import Callable
from dataclasses import dataclass

from syncline.explain.diagnosis.findings import Cause

from .witnesses import Witnesses


@dataclass(frozen=True)
class Incident:
    """The brokers' reports of an incident, and its true cause; without a `cause` nothing was wrong."""

    witnesses: Callable[[], Witnesses]
    cause: Cause | None
    broker: int | None
    since: int


CATALOGUE: dict[str, Incident] = {}


def incident(
    cause: Cause | None, broker: int | None = None, *, since: int = -60_000
) -> Callable[[Callable[[], Witnesses]], Callable[[], Witnesses]]:
    """Put the reports that a function returns into the catalogue; `broker` None if it hit no single broker."""

    def enter(witnesses: Callable[[], Witnesses]) -> Callable[[], Witnesses]:
        CATALOGUE[witnesses.__name__] = Incident(witnesses, cause, broker, since)
        return witnesses

    return enter
