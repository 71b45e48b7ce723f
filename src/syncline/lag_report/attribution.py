"""Which groups the readers of several brokers belong to.

A fetch names its client and not its group; who is in a group, only its coordinator knows, which is any of the brokers.
So what brokers count of readers is joined here with the members that all of them tell, by client id, host and topic. A
reader belongs to a group if exactly one has such a member: a guess would blame a group for the reads of another one.
"""

from collections.abc import Mapping
from typing import Any

Answers = Mapping[int, Mapping[str, Any]]


def attributed(answers: Answers) -> dict[int, dict[str, Any]]:
    """Return the answers of the brokers to `cache.show`, with the group of each reader of which it is known."""
    groups: dict[tuple[str, str, str], set[str]] = {}
    for answer in answers.values():
        for member in answer.get("members", ()):
            for topic in member["topics"]:
                key = member["client_id"], member["host"].removeprefix("/"), topic
                groups.setdefault(key, set()).add(member["group"])
    return {
        broker: {**answer, "readers": [_named(row, groups) for row in answer["readers"]]}
        for broker, answer in answers.items()
    }


def _named(row: Mapping[str, Any], groups: Mapping[tuple[str, str, str], set[str]]) -> Mapping[str, Any]:
    found = groups.get((row["client_id"], row["host"].removeprefix("/"), row.get("topic", "")), set())
    return {**row, "group": next(iter(found))} if len(found) == 1 else row
