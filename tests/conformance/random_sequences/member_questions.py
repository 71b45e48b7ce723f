"""What is asked of a group while its members act; no answer changes the state that `members` reckons with."""

import random
from dataclasses import dataclass
from typing import Any

from tests.conformance.apis import (
    DELETE_GROUPS,
    DESCRIBE_GROUPS,
    FIND_COORDINATOR,
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    LIST_GROUPS,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    SYNC_GROUP,
)
from tests.conformance.group_requests import (
    commit,
    delete_groups,
    delete_offsets,
    describe_groups,
    fetch_offsets,
    find_coordinator,
    heartbeat,
    join,
    leave,
    list_groups,
    sync,
)
from tests.conformance.random_sequences.drawing import some, usually, version_of, weighted
from tests.conformance.steps import Action, Saved, coordinator, exact

# Their names hash alike in Java, so they have one coordinator.
GROUP, OTHER_GROUP, NO_GROUP = "Aa", "BB", "C#"
GENERATION = "generation"
EMPTY, PREPARING, SYNCING, STABLE = "Empty", "PreparingRebalance", "CompletingRebalance", "Stable"
HELD_MS = 100
INSTANCES_FROM, MEMBER_IDS_FROM, MANY_GROUPS_FROM, STATIC_FROM, PROTOCOLS_FROM = 3, 9, 8, 5, 5


@dataclass(eq=False)
class Member:
    """One member: its instance, how often it came back with a new id, how often with another subscription."""

    name: str
    instance: str | None
    life: int = 0
    renewals: int = 0

    @property
    def alias(self) -> str:
        """Return the name under which its present id is saved."""
        return f"{self.name}.{self.life}"

    def former(self) -> list[str]:
        """Return the names of its former ids."""
        return [f"{self.name}.{life}" for life in range(self.life)]


class Questions:
    """Draws questions about the members of one sequence."""

    def __init__(self, dice: random.Random, everybody: list[Member]) -> None:
        self.dice = dice
        self.everybody = everybody

    def ask(self, state: str) -> list[Action]:
        """Return one question."""
        steps = {
            self._heartbeat: 5, self._describe: 4, self._list: 3, self._offsets: 3, self._commit: 4, self._delete: 1.5,
            self._delete_offsets: 1, self._wrong_sync: 1.5, self._wrong_leave: 0.7, self._find: 0.3,
            self._commit_other: 0.5,
        }  # fmt: skip
        if state != EMPTY:
            # Kafka makes a group even of a join that it refuses.
            steps[self._wrong_join] = 1.5
        return weighted(self.dice, steps)()

    def commit_alone(self, group: str) -> list[Action]:
        """Return a commit of nobody's, mostly."""
        if self.dice.random() < 0.3:
            return []
        version = version_of(self.dice, OFFSET_COMMIT)
        return [commit(version, group, {"t": {0: 3, 1: 4}})]

    def _commit_other(self) -> list[Action]:
        return self.commit_alone(OTHER_GROUP)

    def _member(self) -> Member:
        return self.dice.choice(self.everybody)

    def _identity(self, member: Member) -> Any:
        former = [Saved(each) for each in member.former()]
        return usually(self.dice, Saved(member.alias), ("nobody", "", *former, *former, *former), 0.3)

    def _generation(self) -> Any:
        return usually(self.dice, Saved(GENERATION), (Saved(GENERATION, 1), Saved(GENERATION, -1), -1), 0.25)

    def _instance(self, member: Member, *, allowed: bool) -> dict[str, Any]:
        others = [each.instance for each in self.everybody]
        instance = usually(self.dice, member.instance, (*others, "i-nobody", None), 0.15)
        return {"instance": instance} if instance and allowed else {}

    def _heartbeat(self) -> list[Action]:
        version, member = version_of(self.dice, HEARTBEAT), self._member()
        more = self._instance(member, allowed=version >= INSTANCES_FROM)
        return [heartbeat(version, GROUP, member=self._identity(member), generation=self._generation(), **more)]

    def _groups(self, most: int = 3, least: int = 1) -> list[str]:
        return some(self.dice, lambda: weighted(self.dice, {GROUP: 5, OTHER_GROUP: 2, NO_GROUP: 1}), most, least=least)

    def _describe(self) -> list[Action]:
        version = version_of(self.dice, DESCRIBE_GROUPS)
        return [describe_groups(version, *self._groups(), authorized=self.dice.random() < 0.3, to=coordinator(GROUP))]

    def _list(self) -> list[Action]:
        dice = self.dice
        states = (EMPTY, PREPARING, SYNCING, STABLE, "stable", "completingrebalance", "Dead", "Assigning", "no", "")
        wanted = some(dice, lambda: dice.choice(states), 3, least=0)
        types = some(dice, lambda: dice.choice(("classic", "Classic", "consumer", "share", "no", "")), 2, least=0)
        version = version_of(dice, LIST_GROUPS)
        return [list_groups(version, states=wanted, types=types if dice.random() < 0.4 else [], to=coordinator(GROUP))]

    def _topic(self) -> Any:
        return weighted(self.dice, {"t": 6, "u": 2, exact("nope"): 0.5})

    def _partition_rows(self) -> list[tuple[Any, list[int]]]:
        dice = self.dice

        def one() -> tuple[Any, list[int]]:
            return self._topic(), some(dice, lambda: weighted(dice, {0: 5, 1: 3, 9: 0.4, -1: 0.2}), 3, least=0)

        return some(dice, one, 2, least=0)

    def _offsets(self) -> list[Action]:
        dice = self.dice
        version = version_of(dice, OFFSET_FETCH)
        stable = dice.random() < 0.5

        def one() -> dict[str, Any]:
            rows = None if version > 1 and dice.random() < 0.5 else self._partition_rows()
            [group] = self._groups(1)[:1]
            step = fetch_offsets(version, group, rows)
            assert isinstance(step.body, dict)
            found = dict(step.body["groups"][0]) if version >= MANY_GROUPS_FROM else step.body
            if version >= MEMBER_IDS_FROM and dice.random() < 0.3:
                epoch = usually(dice, -1, (Saved(GENERATION), 0), 0.5)
                found.update(member_id=self._identity(self._member()), member_epoch=epoch)
            return found

        step = fetch_offsets(version, GROUP, [], require_stable=stable, to=coordinator(GROUP))
        assert isinstance(step.body, dict)
        if version >= MANY_GROUPS_FROM:
            step.body["groups"] = some(dice, one, 3)
        else:
            step.body.update(one(), require_stable=stable)
        return [step]

    def _commit(self) -> list[Action]:
        dice, member = self.dice, self._member()
        version = version_of(dice, OFFSET_COMMIT)
        topics = some(dice, lambda: (self._topic(), [(dice.choice((0, 0, 1, 9)), dice.randint(0, 9))]), 2)
        more = self._instance(member, allowed=version >= 7)
        generation = usually(dice, self._generation(), (-1,), 0.1)
        return [commit(version, GROUP, topics, member=self._identity(member), generation=generation, **more)]

    def _delete(self) -> list[Action]:
        version = version_of(self.dice, DELETE_GROUPS)
        return [delete_groups(version, *self._groups(least=1), to=coordinator(GROUP))]

    def _delete_offsets(self) -> list[Action]:
        [group] = self._groups(1)[:1]
        return [delete_offsets(group, self._partition_rows())]

    def _wrong_sync(self) -> list[Action]:
        """Never right, or it might wait."""
        dice, member = self.dice, self._member()
        version = version_of(dice, SYNC_GROUP)
        if version >= PROTOCOLS_FROM and dice.random() < 0.4:
            protocol = dice.choice((("connect", "range"), ("consumer", "roundrobin"), ("", "range"), ("consumer", "")))
            other = {"protocol_type": protocol[0], "protocol_name": protocol[1]}
            return [sync(version, GROUP, member=Saved(member.alias), generation=Saved(GENERATION), **other)]
        wrong = Saved(GENERATION, dice.choice((1, -1)))
        identity, generation = dice.choice(
            (("nobody", Saved(GENERATION)), (self._identity(member), wrong), ("", Saved(GENERATION)))
        )
        more = self._instance(member, allowed=version >= INSTANCES_FROM)
        protocol = usually(dice, "range", ("roundrobin", None), 0.3)
        return [sync(version, GROUP, member=identity, generation=generation, protocol_name=protocol, **more)]

    def _wrong_join(self) -> list[Action]:
        """Never right: unknown ids, fenced ones, no common protocol."""
        dice, member = self.dice, self._member()
        version = version_of(dice, JOIN_GROUP, STATIC_FROM)
        former = [Saved(each) for each in member.former()]
        kind = dice.choice(("nobody", "protocol", "type", "session", "fenced"))
        more: dict[str, Any] = {"member": usually(dice, Saved(member.alias), ("",), 0.3), "instance": member.instance}
        if kind == "nobody":
            more["member"] = "nobody"
        elif kind == "protocol":
            more["protocols"] = dice.choice(((("sticky", b"x"),), ()))
        elif kind == "type":
            more["protocol_type"] = dice.choice(("connect", ""))
        elif kind == "session":
            more["session"] = dice.choice((0, 5_999, 1_800_001))
        else:
            more["member"] = dice.choice(former) if former and member.instance else "nobody"
        return [join(version, GROUP, answer_ms=2_000, **more)]

    def _wrong_leave(self) -> list[Action]:
        dice, member = self.dice, self._member()
        version = version_of(dice, LEAVE_GROUP, INSTANCES_FROM)
        rows: list[tuple[Any, Any]] = [("nobody", None), ("nobody", member.instance), ("", "i-nobody"), ("", None)]
        rows += [(Saved(each), member.instance) for each in member.former() if member.instance]
        return [leave(version, GROUP, members=some(dice, lambda: dice.choice(rows), 2))]

    def _find(self) -> list[Action]:
        version = version_of(self.dice, FIND_COORDINATOR)
        keys = self._groups(least=1) if version >= 4 else [GROUP]
        return [find_coordinator(version, *keys)]
