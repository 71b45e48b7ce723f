"""Comparing a replay with its recording, and setting aside what is meant to differ."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from tests.conformance.divergences import ANY, DIVERGENCES, Divergence
from tests.conformance.normalise import UNQUOTED_TEXT

ABSENT = "(absent)"


@dataclass(frozen=True)
class Difference:
    """One place in which Syncline answered otherwise. Steps count from 0."""

    sequence: str
    step: int
    path: str
    kafka: Any
    syncline: Any

    def __str__(self) -> str:
        return f"{self.sequence} step {self.step}: {self.path}: Kafka {self.kafka!r}, Syncline {self.syncline!r}"


def differences(sequence: str, recorded: list[dict[str, Any]], replayed: list[dict[str, Any]]) -> list[Difference]:
    """Return where the replies of a replay differ from the recorded ones."""
    found = []
    for step in range(max(len(recorded), len(replayed))):
        kafka = _reply(recorded, step)
        syncline = _reply(replayed, step)
        found += [Difference(sequence, step, path, *pair) for path, *pair in _walk(kafka, syncline, "reply")]
    return found


def unexplained(
    found: list[Difference], divergences: Sequence[Divergence] | None = None
) -> tuple[list[Difference], set[Divergence]]:
    """Return the differences that no divergence covers, and the divergences that covered one."""
    left, used = [], set()
    for difference in found:
        covering = [each for each in (divergences or DIVERGENCES) if _covers(each, difference)]
        used.update(covering)
        if not covering:
            left.append(difference)
    return left, used


def _covers(divergence: Divergence, difference: Difference) -> bool:
    return (
        fnmatchcase(difference.sequence, divergence.sequence)
        and divergence.step in {None, difference.step}
        and fnmatchcase(difference.path, divergence.path)
        and divergence.kafka in (ANY, difference.kafka)
    )


def _reply(rows: list[dict[str, Any]], step: int) -> Any:
    if step >= len(rows):
        return ABSENT
    return rows[step].get("reply", rows[step].get("stopped"))


def _walk(kafka: Any, syncline: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(kafka, dict) and isinstance(syncline, dict):
        for name in dict.fromkeys([*kafka, *syncline]):
            yield from _walk(kafka.get(name, ABSENT), syncline.get(name, ABSENT), f"{path}.{name}")
    elif isinstance(kafka, list) and isinstance(syncline, list):
        for index in range(max(len(kafka), len(syncline))):
            left = kafka[index] if index < len(kafka) else ABSENT
            right = syncline[index] if index < len(syncline) else ABSENT
            yield from _walk(left, right, f"{path}.{index}")
    elif kafka == UNQUOTED_TEXT and syncline and isinstance(syncline, str):
        return
    elif kafka != syncline or isinstance(kafka, bool) != isinstance(syncline, bool):
        yield path, kafka, syncline
