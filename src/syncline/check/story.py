"""Histories in words: what happens in each step, and the state of each replica after it."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from syncline.check import model
from syncline.check.bounds import Property
from syncline.check.model import Replica, State, Step
from syncline.check.properties import Log

ROLES: Final = {
    model.DOWN: "down",
    model.WAITING: "restarted",
    model.ASKING: "asking",
    model.FETCHING: "follower",
    model.LEADING: "leader",
}

MEANINGS: Final = {
    Property.LEADER_COMPLETENESS: "a leader begins its epoch without a record that was committed before",
    Property.COMMITS_STAND: "a leader commits another record where one was committed already",
    Property.LOG_MATCHING: "two logs differ where both are committed, or below a record that both have",
    Property.ACCEPTED_FETCH: "a leader counts a follower's records as its own, though they differ",
}


def sentence(before: State, step: Step) -> str:
    """Return what happens in `step`."""
    verb, one, other = step.action
    after = step.state
    match verb:
        case "produce":
            return f"replica {one} appends {_record(after.replicas[one][5][-1])} from a producer" + _commits(
                before, after, one
            )
        case "fetch":
            return _fetch(before, after, one, other)
        case "apply":
            return _apply(before, after, one)
        case "lose":
            return f"the answer to replica {one} is lost"
        case "ask":
            return (
                f"replica {one} asks replica {other} where its log ends to be the same, and {_cut(before, after, one)}"
            )
        case "learn":
            return _learn(before, after, one, other)
        case "shrink" | "expand":
            change = "drops" if verb == "shrink" else "takes in"
            return f"leader {one} {change} replica {other}: in sync is {_set(after.isr)}{_commits(before, after, one)}"
        case "elect":
            return f"the controller elects replica {one} for epoch {other}, in sync is {_set(after.isr)}"
        case "transfer":
            return f"the controller gives the leadership to replica {one}, epoch {other}, in sync is {_set(after.isr)}"
        case "crash":
            return f"replica {one} crashes"
        case "power cut":
            return f"replica {one} loses power, and all of its log but {other} records"
        case "restart":
            return f"replica {one} restarts"
        case _:
            raise AssertionError(verb)


def replica_line(index: int, replica: Replica) -> str:
    """Return the role and the log of one replica, as one line."""
    role, epoch, leader, isr, mark, log, known_ends = replica
    what = ROLES[role]
    if role in {model.ASKING, model.FETCHING}:
        what += f" of {leader}"
    line = f"{index} {what:<13} epoch {epoch}  high watermark {mark}  log {_log(log)}"
    if role == model.LEADING:
        known = ", ".join(f"{each} at {end}" for each, end in enumerate(known_ends) if each != index and end >= 0)
        line += f"  in sync {_set(isr)}" + (f"  knows {known}" if known else "")
    return line


def tell(initial: State, history: Iterable[Step]) -> Iterator[str]:
    """Yield the lines of a history, ending with what is violated."""
    before = initial
    violated = None
    for number, step in enumerate(history, 1):
        yield f"{number:>3}. {sentence(before, step)}"
        for index, replica in enumerate(step.state.replicas):
            marker = "*" if replica != before.replicas[index] else " "
            yield f"     {marker} {replica_line(index, replica)}"
        before, violated = step.state, step.violated
    if violated is not None:
        yield f"{violated.value} is violated: {MEANINGS[violated]}. Committed so far: {_log(before.committed)}."


def as_data(initial: State, history: Iterable[Step]) -> list[dict[str, Any]]:
    """Return a history as JSON data."""
    before = initial
    rows = []
    for step in history:
        rows.append(
            {
                "action": step.action[0],
                "says": sentence(before, step),
                "replicas": [_replica_data(each) for each in step.state.replicas],
                "controller": {
                    "epoch": step.state.epoch,
                    "leader": step.state.leader,
                    "isr": _members(step.state.isr),
                },
                "committed": [list(each) for each in step.state.committed],
            }
        )
        before = step.state
    return rows


def _replica_data(replica: Replica) -> dict[str, Any]:
    role, epoch, leader, isr, mark, log, _ = replica
    return {
        "role": ROLES[role],
        "leader_epoch": epoch,
        "leader": leader,
        "isr": _members(isr),
        "high_watermark": mark,
        "log": [list(each) for each in log],
    }


def _fetch(before: State, after: State, one: int, leader: int) -> str:
    answer = after.answers[one]
    assert answer, "a handled fetch is answered"
    kind, _, position, records, first, end = answer
    handled = f"leader {leader} handles replica {one}'s fetch from offset {position}"
    if kind == model.RECORDS:
        sent = f"sends {_log(records)}" if records else "has nothing new"
        return f"{handled}{_commits(before, after, leader)}; it {sent}, high watermark {first}"
    if kind == model.DIVERGING:
        known = f"epoch {first} ends at {end}" if first >= 0 else f"it knows no such epoch, only what follows {end}"
        return f"{handled}: the logs part, {known}"
    return f"{handled}: out of range, its log ends at {end}"


def _apply(before: State, after: State, one: int) -> str:
    old, new = before.replicas[one][5], after.replicas[one][5]
    if len(new) > len(old):
        return f"replica {one} gets the answer and appends {_log(new[len(old) :])}"
    if len(new) < len(old):
        return f"replica {one} gets the answer and {_cut(before, after, one)}"
    return f"replica {one} gets the answer: nothing but high watermark {after.replicas[one][4]}"


def _learn(before: State, after: State, one: int, epoch: int) -> str:
    leader = after.replicas[one][2]
    if leader == one:
        return f"replica {one} learns of epoch {epoch} and leads it{_commits(before, after, one)}"
    cut = f" and {_cut(before, after, one)}" if before.replicas[one][5] != after.replicas[one][5] else ""
    return f"replica {one} learns of epoch {epoch} and follows replica {leader}{cut}"


def _cut(before: State, after: State, one: int) -> str:
    old, new = before.replicas[one][5], after.replicas[one][5]
    if old == new:
        return "keeps its whole log"
    return f"cuts {_log(old[len(new) :])} off"


def _commits(before: State, after: State, leader: int) -> str:
    mark = after.replicas[leader][4]
    return f" and commits up to {mark}" if mark > before.replicas[leader][4] else ""


def _record(record: tuple[int, int]) -> str:
    value, epoch = record
    return f"m{value}@{epoch}"


def _log(log: Log) -> str:
    return " ".join(_record(each) for each in log) or "empty"


def _members(mask: int) -> list[int]:
    return [each for each in range(mask.bit_length()) if mask >> each & 1]


def _set(mask: int) -> str:
    return "{" + ",".join(map(str, _members(mask))) + "}"
