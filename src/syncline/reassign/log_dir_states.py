"""How far moves between log directories of one broker are, from what brokers say of their directories.

A replica that moves has a second copy in the directory where it goes, the future one, which replaces the first when
it has everything. Source: KIP-113; the lines are those of Kafka's tool.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from syncline.model.ids import TopicPartition
from syncline.reassign.plan_file import ANY, Target


class Copies(NamedTuple):
    """The directories in which a broker has a replica: the current one and the future one, "" for none."""

    current: str = ""
    future: str = ""


class Place(NamedTuple):
    """One replica of a partition."""

    key: TopicPartition
    broker: int


class Report(NamedTuple):
    """Lines to print, and whether every directory is the wished one."""

    lines: list[str]
    is_done: bool


def wishes(targets: Iterable[Target]) -> dict[Place, str]:
    """Return the directory wished for each replica that has one."""
    return {
        Place(target.key, broker): path
        for target in targets
        for broker, path in zip(target.replicas, target.log_dirs, strict=False)
        if path != ANY
    }


def report(wished: Mapping[Place, str], found: Mapping[Place, Copies], offline: Iterable[int] = ()) -> Report:
    """Return the state of each wish, by broker, topic and partition; `offline` brokers have a failed directory."""
    failed = set(offline)
    lines = []
    is_done = True
    for place, path in sorted(wished.items(), key=lambda item: (item[0].broker, item[0].key)):
        copies = found.get(place, Copies())
        name = f"{place.key}-{place.broker}"
        if copies.future == path:
            is_done = False
            lines.append(f"Reassignment of replica {name} is still in progress.")
        elif copies.future:
            is_done = False
            lines.append(
                f"Partition {place.key} on broker {place.broker} is being moved to log dir {copies.future} instead of "
                f"{path}."
            )
        elif copies.current == path:
            lines.append(f"Reassignment of replica {name} completed successfully.")
        elif copies.current:
            lines.append(
                f"Partition {place.key} on broker {place.broker} is not being moved from log dir {copies.current} to "
                f"{path}."
            )
        elif place.broker in failed:
            is_done = False
            lines.append(
                f"Partition {place.key} is not found in any live log dir on broker {place.broker}. There is likely an "
                "offline log directory on the broker."
            )
        else:
            is_done = False
            lines.append(f"Partition {place.key} cannot be found in any live log directory on broker {place.broker}.")
    return Report(lines, is_done)
