"""The JSON files of Kafka's reassignment tool, in both directions.

In: which topics to move, and where partitions shall be. The first replica of a partition is its preferred leader.
Out: one line without blanks, keys in the tool's order, sorted by topic and partition, so that scripts can compare
and keep it. Log directories are written for every replica, "any" where none is known.
Source: Kafka's ReassignPartitionsCommand, whose messages these are.
"""

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from syncline.model.ids import TopicPartition
from syncline.reassign.amounts import quoted
from syncline.reassign.errors import PlanError

ANY: Final = "any"
VERSION: Final = 1
_INT32_MAX: Final = 2_147_483_647
# Kafka's names of topics; other texts can name none, and some cannot even be sent.
_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_BROKER: Final = re.compile(r"\d{1,10}", re.ASCII)
_PATH_LENGTH_MAX: Final = 4_096
_SHOWN_LENGTH_MAX: Final = 120
# The tool's message, for JSON of another form, too; what is wrong follows it.
_NO_JSON: Final = "The input string is not a valid JSON"
_KINDS: Final = {list: "a list", str: "a string", int: "a number", float: "a number", bool: "a boolean"} | {
    type(None): "null"
}


class Target(NamedTuple):
    """Where one partition shall be: brokers in order of preference; a log directory for each of them, or "any"."""

    key: TopicPartition
    replicas: tuple[int, ...]
    log_dirs: tuple[str, ...] = ()


def parse_plan(text: str, source: str = "the file") -> list[Target]:
    """Return the targets of a file in its order, checked as the tool checks them. Raises PlanError."""
    content = _document(text, source, "partitions")
    rows = content.get("partitions")
    if not isinstance(rows, list):
        raise PlanError("Partition reassignment list cannot be empty")
    targets = [_target(row) for row in rows]
    check_targets(targets)
    return targets


def check_targets(targets: Sequence[Target]) -> None:
    """Raise PlanError with the tool's message for the first rule that the targets break."""
    if not targets:
        raise PlanError("Partition reassignment list cannot be empty")
    if not all(target.replicas for target in targets):
        raise PlanError("Partition replica list cannot be empty")
    twice = _repeated(target.key for target in targets)
    if twice:
        raise PlanError(f"Partition reassignment contains duplicate topic partitions: {','.join(map(str, twice))}")
    entries = [
        f"{target.key} contains multiple entries for {','.join(map(str, repeated))}"
        for target in targets
        if (repeated := _repeated(target.replicas))
    ]
    if entries:
        raise PlanError(f"Partition replica lists may not contain duplicate entries: {'. '.join(entries)}")


def parse_topics(text: str, source: str = "the file") -> list[str]:
    """Return the topics of a topics file, in its order. Raises PlanError."""
    rows = _document(text, source, "topics").get("topics")
    if not isinstance(rows, list) or not all(
        isinstance(row, dict) and isinstance(row.get("topic"), str) for row in rows
    ):
        raise PlanError('The topics file needs a list "topics" of objects with a "topic"')
    topics = [row["topic"] for row in rows]
    wrong = next((topic for topic in topics if not _TOPIC.fullmatch(topic)), None)
    if wrong is not None:
        raise PlanError(f"The topics file has a topic that cannot exist: {_shown(wrong)}")
    twice = _repeated(topics)
    if twice:
        raise PlanError(f"List of topics to reassign contains duplicate entries: [{', '.join(twice)}]")
    return topics


def parse_brokers(text: str) -> list[int]:
    """Return the brokers of a list such as "0,1,2", in its order. Raises PlanError."""
    words = [word.strip() for word in text.split(",")]
    if not all(_BROKER.fullmatch(word) and int(word) <= _INT32_MAX for word in words):
        raise PlanError(f"A broker list must be broker ids separated by commas, such as 0,1,2, not {quoted(text)}")
    brokers = [int(word) for word in words]
    twice = _repeated(brokers)
    if twice:
        raise PlanError(f"Broker list contains duplicate entries: [{', '.join(map(str, twice))}]")
    return brokers


def written(targets: Iterable[Target]) -> str:
    """Return the targets as the tool writes them, which `parse_plan` reads."""
    rows = [
        {
            "topic": target.key.topic,
            "partition": target.key.partition,
            "replicas": list(target.replicas),
            "log_dirs": list(target.log_dirs or (ANY,) * len(target.replicas)),
        }
        for target in sorted(targets)
    ]
    return json.dumps({"version": VERSION, "partitions": rows}, separators=(",", ":"), ensure_ascii=False)


def _document(text: str, source: str, name: str) -> dict[str, Any]:
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        where = f"{source}, line {error.lineno}, column {error.colno}"
        raise PlanError(f"{_NO_JSON}: {where}: {error.msg}") from None
    except ValueError:
        raise PlanError(f"{_NO_JSON}: {source} has a number with too many digits") from None
    except RecursionError:
        raise PlanError(f"{_NO_JSON}: {source} is nested too deeply") from None
    if not isinstance(content, dict):
        expected = f'an object with a list "{name}", such as {{"version":1,"{name}":[...]}}'
        raise PlanError(f"{_NO_JSON}: {source} is {_KINDS[type(content)]}, not {expected}")
    version = content.get("version", VERSION)
    if version != VERSION or isinstance(version, bool):
        raise PlanError(f"Not supported version field value {_shown(version)}")
    return content


def _target(row: Any) -> Target:
    if not isinstance(row, dict):
        raise PlanError(
            f"A partition of the file must be an object with topic, partition and replicas, not {_shown(row)}"
        )
    topic, partition, replicas = row.get("topic"), row.get("partition"), row.get("replicas")
    if not isinstance(topic, str) or not topic:
        raise PlanError(f"A partition of the file has no topic: {_shown(row)}")
    if not _TOPIC.fullmatch(topic):
        raise PlanError(f"A partition of the file has a topic that cannot exist: {_shown(topic)}")
    if not _is_number(partition):
        raise PlanError(f"A partition of topic {topic} has no number: {_shown(row)}")
    assert isinstance(partition, int), "it is a number"
    key = TopicPartition(topic, partition)
    if not isinstance(replicas, list) or not all(map(_is_number, replicas)):
        raise PlanError(f"The replicas of partition {key} must be a list of broker ids, not {_shown(replicas)}")
    log_dirs = row.get("log_dirs")
    if log_dirs is None:
        log_dirs = [ANY] * len(replicas)
    if not isinstance(log_dirs, list) or not all(isinstance(each, str) for each in log_dirs):
        raise PlanError(f"The log_dirs of partition {key} must be a list of strings, not {_shown(log_dirs)}")
    if len(log_dirs) != len(replicas):
        raise PlanError(
            f"Size of replicas list [{_listed(replicas)}] is different from size of log dirs list "
            f"[{_listed(log_dirs)}] for partition {key}"
        )
    wrong = next((each for each in log_dirs if each != ANY and not _is_path(each)), None)
    if wrong is not None:
        raise PlanError(f'A log directory of partition {key} must be an absolute path or "any", not {_shown(wrong)}')
    return Target(key, tuple(replicas), tuple(log_dirs))


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _INT32_MAX


def _is_path(text: str) -> bool:
    return text.startswith("/") and text.isprintable() and len(text) <= _PATH_LENGTH_MAX


def _listed(values: Sequence[object]) -> str:
    return ", ".join(map(str, values)) if len(values) <= _SHOWN_LENGTH_MAX else f"{len(values):,} of them"


def _shown(value: Any) -> str:
    """Return a part of a file for a sentence: on one line, and not at any length."""
    try:
        text = json.dumps(value)
    except RecursionError:
        text = "something that is nested too deeply"
    return text if len(text) <= _SHOWN_LENGTH_MAX else f"{text[:_SHOWN_LENGTH_MAX]}..."


def _repeated(values: Iterable[Any]) -> list[Any]:
    """Return each value that occurs again, once, in the order of its second occurrence."""
    seen: set[Any] = set()
    repeated: dict[Any, None] = {}
    for value in values:
        if value in seen:
            repeated[value] = None
        seen.add(value)
    return list(repeated)
