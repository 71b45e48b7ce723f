"""What Kafka's reassignment tool prints where scripts read it, word for word.

Each function returns the lines of one part of its output, without line ends.
Source: Kafka's ReassignPartitionsCommand, release 4.3.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from syncline.model.ids import TopicPartition
from syncline.reassign.log_dir_states import Place
from syncline.reassign.move_map import Running
from syncline.reassign.plan_file import Target

CANNOT_EXECUTE: Final = (
    "Cannot execute because there is an existing partition assignment.  Use --additional to override this and create "
    "a new partition assignment in addition to the existing one. The --additional flag can also be used to change the "
    "throttle by resubmitting the current reassignment."
)
MUST_VERIFY: Final = (
    "Warning: You must run --verify periodically, until the reassignment completes, to ensure the throttle is removed."
)
NOTHING_RUNS: Final = "No partition reassignments found."
NONE_ACTIVE: Final = "None of the specified partition reassignments are active."
STATUS_HEAD: Final = "Status of partition reassignment:"


def proposal(current: str, proposed: str) -> list[str]:
    """Return the output of `generate`: two plans in their written form."""
    return [
        "Current partition replica assignment",
        current,
        "",
        "Proposed partition reassignment configuration",
        proposed,
    ]


def rollback(current: str) -> list[str]:
    """Return how to go back to `current`, a plan in its written form."""
    return [
        "Current partition replica assignment",
        "",
        current,
        "",
        "Save this to use as the --reassignment-json-file option during rollback",
    ]


def throttle_set(bytes_per_s: int) -> str:
    """Return that rates were set."""
    return f"The inter-broker throttle limit was set to {bytes_per_s} B/s"


def without_rate(brokers: Sequence[int]) -> str:
    """Return that brokers that are down got no rate; Kafka's tool fails there."""
    are = "is down, so it gets" if len(brokers) == 1 else "are down, so they get"
    return (
        f"broker{_plural(brokers)} {_ids(brokers)} {are} no rate. To set it after a restart, run the same "
        "command with --additional before the moves are complete."
    )


def log_dir_throttle_set(bytes_per_s: int) -> str:
    """Return that rates of moves between directories were set."""
    return f"The replica-alter-dir throttle limit was set to {bytes_per_s} B/s"


def started(keys: Iterable[TopicPartition]) -> str:
    """Return that these partitions move now."""
    names = _names(keys)
    return f"Successfully started partition reassignment{_plural(names)} for {','.join(names)}"


def cancelled(keys: Iterable[TopicPartition]) -> str:
    """Return that these partitions no longer move."""
    names = _names(keys)
    if not names:
        return NONE_ACTIVE
    return f"Successfully cancelled partition reassignment{_plural(names)} for: {','.join(names)}"


def refusals(head: str, messages: Mapping[TopicPartition, str]) -> list[str]:
    """Return a head and each partition's message."""
    return [head, *(f"{key}: {message}" for key, message in sorted(messages.items()))]


def running(moving: Mapping[TopicPartition, Running]) -> list[str]:
    """Return the output of `list`."""
    if not moving:
        return [NOTHING_RUNS]
    lines = ["Current partition reassignments:"]
    for key, each in sorted(moving.items()):
        parts = [f"replicas: {_ids(each.replicas)}."]
        parts += [f"adding: {_ids(each.adding)}."] if each.adding else []
        parts += [f"removing: {_ids(each.removing)}."] if each.removing else []
        lines.append(f"{key}: {' '.join(parts)}")
    return lines


def states(
    targets: Sequence[Target],
    moving: Mapping[TopicPartition, Running],
    current: Mapping[TopicPartition, tuple[int, ...]],
) -> list[str]:
    """Return how far each target is, sorted. The order of replicas counts; an unknown partition has none."""
    lines = [STATUS_HEAD]
    for target in sorted(targets):
        replicas = current.get(target.key, ())
        if target.key in moving:
            lines.append(f"Reassignment of partition {target.key} is still in progress.")
        elif replicas == target.replicas:
            lines.append(f"Reassignment of partition {target.key} is completed.")
        else:
            lines.append(
                f"There is no active reassignment of partition {target.key}, but replica set is {_ids(replicas)} "
                f"rather than {_ids(target.replicas)}."
            )
    return lines


def log_dirs_started(path: str, broker: int, keys: Iterable[TopicPartition]) -> str:
    """Return that replicas of a broker move to a directory now; the tool's line ends with a blank."""
    names = _names(keys)
    return (
        f"Successfully started moving log directory to {path} for replica{_plural(names)} {','.join(names)} with "
        f"broker {broker} "
    )


def log_dirs_late(places: Iterable[Place]) -> str:
    """Return that these replicas did not exist in time to be moved."""
    names = [f"{place.key}-{place.broker}" for place in sorted(places)]
    return f"Timed out before log directory move{_plural(names)} could be started for: {','.join(names)}"


def clearing(brokers: Iterable[int], topics: Iterable[str]) -> list[str]:
    """Return that throttles are removed."""
    names = sorted(topics)
    return [
        f"Clearing broker-level throttles on brokers {_ids(sorted(brokers))}",
        f"Clearing topic-level throttles on topic{_plural(names)} {','.join(names)}",
    ]


def _names(keys: Iterable[TopicPartition]) -> list[str]:
    return [str(key) for key in sorted(keys)]


def _ids(brokers: Iterable[int]) -> str:
    return ",".join(map(str, brokers))


def _plural(items: Sequence[object]) -> str:
    return "" if len(items) == 1 else "s"
