"""Sequences about groups: members that come, go and come back, offsets, and everything asked of the wrong one.

Nothing waits for a timeout: a join or a sync that must wait for others is held on a connection of its own, and what it
got is taken later or never. Saved ids begin as "nobody" and generations as -1, so that every step can be sent whatever
the answers before it were.
"""

import random
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
    consumer_subscription,
    delete_groups,
    delete_offsets,
    describe_groups,
    fetch_offsets,
    find_coordinator,
    heartbeat,
    join,
    leave,
    list_groups,
    subscribing,
    sync,
)
from tests.conformance.random_sequences.drawing import some, usually, version_of, weighted
from tests.conformance.steps import (
    Action,
    Pause,
    Receive,
    Saved,
    Step,
    Target,
    Topic,
    coordinator,
    exact,
    other_than_coordinator,
    topic,
)

MEMBERS = ("m1", "m2")
GENERATION = "generation"
WAITING_MS = 2_000
HELD_MS = 100
FIRST = {name: (("range", consumer_subscription(name)),) for name in MEMBERS}
PROTOCOLS: tuple[Any, ...] = (
    FIRST["m1"], FIRST["m2"], subscribing("t"), subscribing("t", "u"), (("range", b""),), (("range", b"\0"),),
    (("range", b"a"), ("roundrobin", b"a")), (("roundrobin", b"b"), ("range", b"b")), (("sticky", b"c"),),
    (("", b"d"),), (),
)  # fmt: skip
STATIC_FROM, MANY_LEAVE_FROM, KEYS_FROM, EXPIRY_UNTIL = 5, 3, 4, 4


def draw(dice: random.Random) -> tuple[dict[str, Topic], list[Action]]:
    """Return the topics and actions of one sequence."""
    return {"t": topic((0,), (1,)), "u": topic((0,))}, _Groups(dice).actions(dice.randint(8, 18))


class _Groups:
    """One sequence being drawn."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.held = 0
        # Kafka makes a group even of a join that it refuses. So where joins are refused, the group is there already,
        # and is not deleted.
        self.may_refuse = dice.random() < 0.6
        self.instances: dict[str, str | None] = {name: usually(dice, None, (f"i-{name}",), 0.4) for name in MEMBERS}

    def actions(self, count: int) -> list[Action]:
        steps = {
            self._join: 5, self._rejoin: 4, self._sync: 4, self._heartbeat: 3, self._leave: 2, self._commit: 4,
            self._fetch_offsets: 3, self._delete_offsets: 1, self._describe: 2, self._list: 0.7, self._delete: 0.7,
            self._find: 0.4,
        }  # fmt: skip
        found: list[Action] = [
            join(2, member="nobody", save=dict.fromkeys(MEMBERS, "member_id"), quiet=True),
            join(2, member="nobody", save={GENERATION: "generation_id"}, quiet=True),
        ]
        beginnings = {self._stable_alone: 3.0, self._stable_pair: 3.0, self._joined: 1.0}
        if not self.may_refuse:
            beginnings[self._nobody] = 3.0
        found += weighted(self.dice, beginnings)()
        for _ in range(count):
            found += weighted(self.dice, steps)()
        return found

    def _nobody(self) -> list[Action]:
        return []

    def _held(self, step_of: Any) -> list[Action]:
        """Send on a connection of its own, give it time to be seen, and later nobody has to wait for it."""
        self.held += 1
        return [step_of(connection=f"held {self.held}", hold=True), Pause(HELD_MS)]

    def _joined(self) -> list[Action]:
        return self._enter("m1")

    def _enter(self, name: str) -> list[Action]:
        """Join as a new member of a group in which nobody else is."""
        version = version_of(self.dice, JOIN_GROUP, STATIC_FROM)
        save = {name: "member_id", GENERATION: "generation_id"}
        instance = self.instances[name]
        first = join(version, protocols=FIRST[name], instance=instance, save=save)
        if instance:
            return [first]
        return [first, join(version, member=Saved(name), protocols=FIRST[name], save=save)]

    def _stable_alone(self) -> list[Action]:
        return [*self._enter("m1"), self._synced("m1", [(Saved("m1"), b"one")])]

    def _stable_pair(self) -> list[Action]:
        """Two members that both have their assignments; the second one joined while the first one was alone."""
        version = version_of(self.dice, JOIN_GROUP, STATIC_FROM)
        instance = self.instances["m2"]
        here = {"connection": "two", "hold": True}
        second: list[Action] = []
        if instance is None:
            second = [join(version, protocols=FIRST["m2"], save={"m2": "member_id"})]
        member = "" if instance else Saved("m2")
        return [
            *self._stable_alone(),
            *second,
            join(version, member=member, protocols=FIRST["m2"], instance=instance, **here),
            Pause(HELD_MS),
            self._rejoined("m1"),
            Receive(to=coordinator("g"), connection="two", save={"m2": "member_id"}),
            self._synced("m1", [(Saved("m1"), b"one"), (Saved("m2"), b"two")]),
            self._synced("m2", []),
        ]

    def _rejoined(self, name: str) -> Step:
        version = version_of(self.dice, JOIN_GROUP, STATIC_FROM)
        save = {GENERATION: "generation_id"}
        return join(version, member=Saved(name), protocols=FIRST[name], instance=self.instances[name], save=save)

    def _synced(self, name: str, assignments: Any) -> Step:
        version = version_of(self.dice, SYNC_GROUP, 3)
        instance = self.instances[name]
        return sync(
            version, member=Saved(name), generation=Saved(GENERATION), instance=instance, assignments=assignments
        )

    def _group(self) -> Any:
        """Return a group; "h" is never made, nor is "", which would be the same for all sequences."""
        return weighted(self.dice, {"g": 12, "h": 1, exact(""): 0.3})

    def _to(self, group: Any) -> Target:
        return usually(self.dice, coordinator(group), (other_than_coordinator(group),), 0.04)

    def _member(self) -> Any:
        return weighted(self.dice, {Saved("m1"): 6, Saved("m2"): 5, "nobody": 0.7, "": 0.7})

    def _generation(self) -> Any:
        wrong = (Saved(GENERATION, 1), Saved(GENERATION, -1), -1, 0, 2_147_483_647)
        return usually(self.dice, Saved(GENERATION), wrong, 0.25)

    def _instance(self, member: Any) -> dict[str, Any]:
        """Return the member's own instance, or another one, or none."""
        own = self.instances.get(member.name) if isinstance(member, Saved) else None
        instance = usually(self.dice, own, ("i-m1", "i-m2", "i-nobody", "", None), 0.15)
        return {} if instance is None else {"instance": instance}

    def _join(self) -> list[Action]:
        """Join as anybody: it may be answered at once or wait, so it is held."""
        dice = self.dice
        member = weighted(dice, {"": 5, Saved("m1"): 3, Saved("m2"): 3, "nobody": 0.5})
        version = version_of(dice, JOIN_GROUP)
        name = usually(dice, dice.choice(MEMBERS), ("m1",), 0.3)
        group = self._group() if member == "nobody" else usually(dice, "g", (exact(""),), 0.02)
        more: dict[str, Any] = {
            "member": member,
            "protocols": usually(dice, FIRST[name], PROTOCOLS, 0.35 * self.may_refuse),
            "protocol_type": usually(dice, "consumer", ("connect", ""), 0.1 * self.may_refuse),
            "session": usually(dice, 30_000, (6_000, 5_999, 1_800_000, 1_800_001, 0, -1), 0.1),
            "rebalance": usually(dice, 30_000, (60_000, -1), 0.1),
            "to": self._to(group),
        }
        if version >= STATIC_FROM and dice.random() < 0.5:
            more.update(self._instance(Saved(name)))
        if dice.random() < 0.3:
            more["reason"] = "because"
        return self._answered_or_held(lambda **how: join(version, group, **more, **how), name, group, more["to"])

    def _answered_or_held(self, step_of: Any, name: str, group: Any, to: Target) -> list[Action]:
        self.held += 1
        place = {"to": to, "connection": f"held {self.held}"}
        # Some requests must wait until another member acts; then the answer is silence, and the member stays.
        return [
            step_of(connection=place["connection"], hold=True),
            Pause(HELD_MS),
            *self._let_others_act(name),
            Receive(
                **place,
                save={name: "member_id", GENERATION: "generation_id"},
                answer_ms=WAITING_MS,  # type: ignore[arg-type]
            ),
        ]

    def _let_others_act(self, name: str) -> list[Action]:
        """Mostly the other member rejoins, which ends a rebalance."""
        other = MEMBERS[1 - MEMBERS.index(name)]
        dice = self.dice
        if dice.random() < 0.3:
            return []
        acts = {
            "rejoin": 6, "leave": 1.5, "heartbeat": 1, "commit": 1, "describe": 1,
        }  # fmt: skip
        act = weighted(dice, acts)
        if act == "rejoin":
            # On a connection of its own: it may have to wait for the first one, when both are not enough.
            return self._held(
                lambda **how: join(
                    version_of(dice, JOIN_GROUP, STATIC_FROM),
                    member=Saved(other),
                    protocols=FIRST[other],
                    instance=self.instances[other],
                    **how,
                )
            )
        if act == "leave":
            return [leave(version_of(dice, LEAVE_GROUP), members=[Saved(other)])]
        if act == "heartbeat":
            return self._heartbeat()
        return self._commit() if act == "commit" else self._describe()

    def _rejoin(self) -> list[Action]:
        name = self.dice.choice(MEMBERS)
        version = version_of(self.dice, JOIN_GROUP, STATIC_FROM)
        more = {"member": Saved(name), "protocols": FIRST[name], "instance": self.instances[name]}
        return self._answered_or_held(lambda **how: join(version, **more, **how), name, "g", coordinator("g"))

    def _sync(self) -> list[Action]:
        dice = self.dice
        group, member, version = self._group(), self._member(), version_of(dice, SYNC_GROUP)
        targets = (Saved("m1"), Saved("m2"), "nobody", "")
        more: dict[str, Any] = {
            "member": member,
            "generation": self._generation(),
            "assignments": some(dice, lambda: (dice.choice(targets), dice.choice((b"one", b"two", b""))), 3, least=0),
            "protocol_type": usually(dice, "consumer", ("connect", "", None), 0.12),
            "protocol_name": usually(dice, "range", ("roundrobin", "", None), 0.12),
            "to": self._to(group),
            **(self._instance(member) if version >= 3 else {}),
        }
        self.held += 1
        connection = f"held {self.held}"
        return [
            sync(version, group, connection=connection, hold=True, **more),
            Pause(HELD_MS),
            Receive(to=more["to"], connection=connection, answer_ms=WAITING_MS),
        ]

    def _heartbeat(self) -> list[Action]:
        version, member, group = version_of(self.dice, HEARTBEAT), self._member(), self._group()
        more = self._instance(member) if version >= 3 else {}
        return [heartbeat(version, group, member=member, generation=self._generation(), to=self._to(group), **more)]

    def _leave(self) -> list[Action]:
        dice = self.dice
        version, group = version_of(dice, LEAVE_GROUP), self._group()
        if version < MANY_LEAVE_FROM:
            return [leave(version, group, members=[self._member()], to=self._to(group))]

        def one() -> tuple[Any, Any]:
            member = self._member()
            return member, self._instance(member).get("instance")

        members = some(dice, one, 2, least=usually(dice, 1, (0,), 0.1), repeat=0.15)
        return [leave(version, group, members=members, to=self._to(group))]

    def _topic(self) -> Any:
        return weighted(self.dice, {"t": 6, "u": 2, exact("nope"): 0.5, exact(""): 0.2})

    def _partitions(self, value: Any) -> Any:
        dice = self.dice

        def one() -> tuple[int, Any]:
            return weighted(dice, {0: 5, 1: 4, 9: 0.4, -1: 0.2}), value()

        return some(dice, one, 3, least=usually(dice, 1, (0,), 0.1))

    def _commit(self) -> list[Action]:
        dice = self.dice
        version, group = version_of(dice, OFFSET_COMMIT), "g"

        def offset() -> dict[str, Any]:
            return {
                "committed_offset": usually(dice, dice.randint(0, 9), (-1, -5, 1 << 62), 0.1),
                "committed_metadata": usually(dice, "", ("note", None, "x" * 4096, "x" * 4097, "é" * 2048), 0.3),
                "committed_leader_epoch": usually(dice, -1, (0, 3, -2), 0.2),
            }

        topics = some(dice, lambda: (self._topic(), self._partitions(offset)), 2, least=usually(dice, 1, (0,), 0.1))
        member = usually(dice, self._member(), ("",), 0.35)
        generation = usually(dice, self._generation(), (-1,), 0.35)
        more = self._instance(member) if version >= 7 else {}
        step = commit(version, group, topics, member=member, generation=generation, to=self._to(group), **more)
        if version <= EXPIRY_UNTIL and isinstance(step.body, dict):
            step.body["retention_time"] = usually(dice, -1, (0, 1, 3_600_000, -5), 0.4)
        return [step]

    def _fetch_offsets(self) -> list[Action]:
        dice = self.dice
        version, group = version_of(dice, OFFSET_FETCH), usually(dice, "g", ("h",), 0.1)
        topics: Any = None
        if version < 2 or dice.random() < 0.7:
            topics = [
                (each, [index for index, _ in self._partitions(lambda: None)])
                for each in some(dice, self._topic, 2, least=usually(dice, 1, (0,), 0.1))
            ]
        more: dict[str, Any] = {"require_stable": dice.random() < 0.3, "to": self._to(group)}
        if version >= 9 and dice.random() < 0.3:
            more.update(member_id=self._member(), member_epoch=dice.choice((-1, 0, 7)))
        step = fetch_offsets(version, group, topics, **more)
        if version >= 8 and dice.random() < 0.3 and isinstance(step.body, dict):
            first = step.body["groups"][0]
            step.body["groups"] = dice.choice(([], [first, first], [first, {**first, "topics": None}]))
        return [step]

    def _delete_offsets(self) -> list[Action]:
        group = self._group()
        topics = some(
            self.dice, lambda: (self._topic(), [index for index, _ in self._partitions(lambda: None)]), 2, least=0
        )
        return [delete_offsets(group, topics, to=self._to(group))]

    def _one_group(self, least: int = 1) -> tuple[Target, list[Any]]:
        """Return a group as often as a request names it; which groups share a coordinator is chance."""
        group = usually(self.dice, "g", ("h",), 0.1)
        return coordinator(group), some(self.dice, lambda: group, 2, least=least)

    def _describe(self) -> list[Action]:
        to, groups = self._one_group()
        version = version_of(self.dice, DESCRIBE_GROUPS)
        return [describe_groups(version, *groups, authorized=self.dice.random() < 0.3, to=to)]

    def _list(self) -> list[Action]:
        dice = self.dice
        states = some(
            dice, lambda: dice.choice(("Stable", "empty", "PreparingRebalance", "Dead", "no", "")), 2, least=0
        )
        types = some(dice, lambda: dice.choice(("classic", "Consumer", "no", "")), 1, least=0)
        return [list_groups(version_of(dice, LIST_GROUPS), states=states, types=types)]

    def _delete(self) -> list[Action]:
        to, groups = self._one_group(least=usually(self.dice, 1, (0,), 0.1))
        if self.may_refuse:
            to, groups = coordinator("h"), ["h"]
        return [delete_groups(version_of(self.dice, DELETE_GROUPS), *groups, to=to)]

    def _find(self) -> list[Action]:
        version = version_of(self.dice, FIND_COORDINATOR)
        # Whether two groups have one coordinator is chance.
        group = self._group()
        keys = some(self.dice, lambda: group, 3, least=0 if version >= KEYS_FROM else 1)
        return [find_coordinator(version, *keys, key_type=usually(self.dice, 0, (3, -1), 0.1))]
