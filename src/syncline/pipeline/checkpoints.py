"""Where a query of Spark's own Kafka connector stopped, from its checkpoint, so that one of ours continues there.

A checkpoint has a file per micro-batch: `offsets/N` says up to where batch N was to read, `commits/N` that it is done.
The next query begins where the newest batch with a commit ended. Ours reads a batch that was planned but not done
again, as the old query would have.

A file of `offsets` has a version, a line of metadata, and a line per source of the query, in the order in which they
stand in it; the connector's are `{"topic": {"0": 23}}`.
"""

import json
from pathlib import Path
from typing import Any, Final

from syncline.pipeline.errors import OptionError

_VERSION: Final = "v1"
_NOTHING: Final = ("-", "{}")


def starting_offsets(checkpoint: str | Path, *, source: int = 0) -> str:
    """Return the option `startingOffsets` of the query that continues.

    `source` counts the sources of the old query. Raises OptionError if there is no such checkpoint, no batch was done,
    or the source was not Kafka's.
    """
    directory = Path(checkpoint)
    done = _newest(directory / "commits")
    file = directory / "offsets" / str(done)
    try:
        version, _, *sources = file.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise OptionError(f"{file} cannot be read as the offsets of a batch: {error}") from error
    if version != _VERSION:
        raise OptionError(f"{file} has version {version[:20]}, but only {_VERSION} can be read")
    if not 0 <= source < len(sources):
        raise OptionError(f"{file} has {len(sources)} sources, so there is no source {source}: they count from 0")
    line = sources[source]
    if line in _NOTHING:
        raise OptionError(f"source {source} of {directory} has read nothing yet: start at startingOffsets as before")
    offsets = _offsets(line)
    if offsets is None:
        if _has_ids(line):
            raise OptionError(f"{directory} is already a checkpoint of the format syncline: run the query with it")
        raise OptionError(f"source {source} of {directory} is not a Kafka source: its offsets are {line[:80]}")
    return json.dumps(offsets)


def _newest(commits: Path) -> int:
    """Return the newest completed batch."""
    try:
        names = [each.name for each in commits.iterdir()]
    except OSError as error:
        raise OptionError(f"{commits.parent} is not a checkpoint of a query: {error}") from error
    done = [int(name) for name in names if name.isdecimal()]
    if not done:
        raise OptionError(f"{commits.parent} has no completed batch: start at startingOffsets as before")
    return max(done)


def _offsets(line: str) -> dict[str, dict[str, int]] | None:
    """Return the offsets of a line, None if it holds something else."""
    try:
        found: Any = json.loads(line)
    except ValueError:
        return None
    if not isinstance(found, dict) or not all(isinstance(each, dict) for each in found.values()):
        return None
    places = {topic: dict(sorted(each.items(), key=_number)) for topic, each in found.items()}
    is_kafkas = all(
        partition.isdecimal() and type(offset) is int and offset >= 0
        for each in places.values()
        for partition, offset in each.items()
    )
    return places if is_kafkas else None


def _has_ids(line: str) -> bool:
    """Return whether a line is a place of our own source, which keeps the ids of topics."""
    try:
        topics = json.loads(line)
    except ValueError:
        return False
    return isinstance(topics, dict) and any(isinstance(each, dict) and "id" in each for each in topics.values())


def _number(place: tuple[str, Any]) -> tuple[int, str]:
    return (int(place[0]), "") if place[0].isdecimal() else (-1, place[0])
