"""Sequences about groups of up to three members, with connections of their own, that act in a fixed order.

The drawing knows what state the group is in, and so reaches what chance alone seldom reaches: joins that complete a
rebalance, assignments of a leader, members that leave while others wait, instances that come back.

Which broker coordinates a group is chance. Names that differ in "Aa", "BB" and "C#" have equal hashes in Java, so these
groups have one coordinator. When a leader leaves two others behind, chance decides who leads; so it is never drawn.
"""

import random
from collections.abc import Callable, Container
from dataclasses import dataclass, field
from typing import Any

from tests.conformance.apis import JOIN_GROUP, LEAVE_GROUP, SYNC_GROUP
from tests.conformance.group_requests import join, leave, subscribing, sync
from tests.conformance.random_sequences.barriers import Barriers
from tests.conformance.random_sequences.drawing import usually, version_of, weighted
from tests.conformance.random_sequences.member_questions import (
    EMPTY,
    GENERATION,
    GROUP,
    HELD_MS,
    OTHER_GROUP,
    PREPARING,
    STABLE,
    SYNCING,
    Member,
    Questions,
)
from tests.conformance.requests import create_topics, delete_topics, new_topic
from tests.conformance.steps import Action, Pause, Receive, Saved, Topic, coordinator, topic

NAMES = ("m1", "m2", "m3")
LIVES = 3
PATIENT_MS = {"session": 1_200_000, "rebalance": 600_000}
# Until coordinators have forgotten what was committed for a topic that is gone.
FORGOTTEN_MS = 300
# In some sequences members that are late are soon removed.
IMPATIENT_MS, EXPIRED_MS, LOST_MS = 1_500, 2_000, 50
STATIC_FROM, ID_FIRST_FROM, MANY_LEAVE_FROM, WAITING_MS = 5, 4, 3, 2_000


def draw(dice: random.Random) -> tuple[dict[str, Topic], list[Action]]:
    """Return the topics and actions of one sequence."""
    return {"t": topic((0,), (1,)), "u": topic((0,))}, _Members(dice).actions(dice.randint(8, 18))


@dataclass
class _Members:
    """One sequence being drawn: who is in the group, in which state it is, and whose joins wait on which connection."""

    dice: random.Random
    state: str = EMPTY
    members: list[Member] = field(default_factory=list)
    leader: Member | None = None
    waiting: dict[str, str] = field(default_factory=dict)
    held: int = 0

    def __post_init__(self) -> None:
        self.everybody = [Member(name, usually(self.dice, None, (f"i-{name}",), 0.4)) for name in NAMES]
        self.questions = Questions(self.dice, self.everybody)
        self.barriers = Barriers()
        # Whether subscriptions can be read decides on what may be deleted of the offsets.
        self.kind = usually(self.dice, "consumer", ("connect", "consumer"), 0.3)
        self.is_legible = self.dice.random() < 0.85
        self.is_impatient = self.dice.random() < 0.3

    def actions(self, count: int) -> list[Action]:
        lives = [Member(name, None, life).alias for name in NAMES for life in range(LIVES)]
        found: list[Action] = [
            join(2, GROUP, member="nobody", save=dict.fromkeys(lives, "member_id"), quiet=True),
            join(2, GROUP, member="nobody", save={GENERATION: "generation_id"}, quiet=True),
            *self.questions.commit_alone(OTHER_GROUP),
        ]
        for _ in range(count):
            found += weighted(self.dice, self._steps())()
            if self.is_impatient:
                found += self._hurried()
            for _ in range(self.dice.choice((0, 1, 1, 2))):
                found += self.questions.ask(self.state)
        return found

    def _steps(self) -> dict[Callable[[], list[Action]], float]:
        """Return what may happen next, with weights."""
        steps: dict[Callable[[], list[Action]], float] = {self._delete_topic: 0.7}
        if len(self.members) < len(self.everybody):
            steps[self._enter] = 5 if len(self.members) < 2 else 1.5
        if self.state == PREPARING:
            steps[self._rejoin] = 10
            if any(self.waiting.values()):
                steps[self._lose] = 1.5
        if self.state == SYNCING:
            steps.update({self._sync_all: 8, self._interrupted_sync: 1, self._same_join: 1, self._renewed_join: 0.7})
        if self.state == STABLE:
            steps.update({self._same_join: 3, self._renewed_join: 2, self._late_sync: 1.5})
        if self._may_leave():
            steps[self._leave] = 1.5
        if self._may_come_back():
            steps[self._replace] = 3
        return steps

    def _delete_topic(self) -> list[Action]:
        """A topic goes, and with it what was committed for it; a new one of its name begins without offsets."""
        dice = self.dice
        doomed = dice.choice(("t", "u"))
        gone = self.barriers.after(delete_topics(5, doomed), FORGOTTEN_MS)
        if dice.random() < 0.4:
            return gone
        return [*gone, *self.barriers.after(create_topics(7, new_topic(doomed, dice.choice((1, 2)))))]

    def _may_leave(self) -> list[Member]:
        return [each for each in self.members if each is not self.leader or len(self.members) < len(NAMES)]

    def _may_come_back(self) -> list[Member]:
        return [each for each in self.members if each.instance and each.life < LIVES - 1]

    def _version(self, member: Member) -> int:
        return version_of(self.dice, JOIN_GROUP, STATIC_FROM if member.instance else 0)

    def _enter(self) -> list[Action]:
        """Join as a new member; from version 4 on, in two steps."""
        member = self.dice.choice([each for each in self.everybody if each not in self.members])
        version = self._version(member)
        if self.waiting:
            # Ids of two members that are first seen in one description could not be told apart.
            version = max(version, ID_FIRST_FROM)
        found: list[Action] = []
        identity: Any = ""
        if version >= ID_FIRST_FROM and not member.instance:
            found.append(
                join(
                    version,
                    GROUP,
                    protocols=self._protocols(member),
                    protocol_type=self.kind,
                    save={member.alias: "member_id"},
                )
            )
            identity = Saved(member.alias)
        self.members.append(member)
        return found + self._wait_for_all(member, version, identity)

    def _join(self, member: Member, version: int, identity: Any, **how: Any) -> Action:
        more = dict(how)
        if version >= STATIC_FROM and member.instance:
            more["instance"] = member.instance
        return join(
            version,
            GROUP,
            member=identity,
            protocols=self._protocols(member),
            protocol_type=self.kind,
            **self._times(),
            **more,
        )

    def _times(self) -> dict[str, int]:
        return {**PATIENT_MS, "rebalance": IMPATIENT_MS} if self.is_impatient else PATIENT_MS

    def _hurried(self) -> list[Action]:
        """Return what leads to a stable or an empty group before anybody is late, or removes those that are."""
        found: list[Action] = []
        while self.state in {PREPARING, SYNCING}:
            is_late = self.dice.random() < 0.3
            if self.state == PREPARING:
                found += self._without_late_joins() if is_late and self._may_miss(self.waiting) else self._rejoin()
            else:
                found += self._without_late_syncs() if is_late else self._sync_all(share=1.0)
        return found

    def _may_miss(self, present: Container[str]) -> bool:
        """Return whether it is no chance who leads if only these members act."""
        left = [each for each in self.members if each.name in present]
        return self.leader in left or len(left) <= 1

    def _without_late_joins(self) -> list[Action]:
        """Members that do not join are removed; instances are kept."""
        self.members = [each for each in self.members if each.name in self.waiting or each.instance]
        order = [each for each in self.members if each.name in self.waiting]
        if order and self.leader not in order:
            self.leader = order[0]
        if order:
            self.state = SYNCING
        elif not self.members:
            self.state, self.leader = EMPTY, None
        return [Pause(EXPIRED_MS), *(step for each in order for step in self._received(each))]

    def _without_late_syncs(self) -> list[Action]:
        """Members that do not ask for their assignments are removed."""
        punctual = [each for each in self.members if self.dice.random() < 0.5]
        if not self._may_miss([each.name for each in punctual]):
            punctual = [each for each in self.members if each is self.leader]
        if len(punctual) == len(self.members):
            return self._sync_all(share=1.0)
        found: list[Action] = []
        taken: list[Action] = []
        for member in sorted(punctual, key=lambda each: each is self.leader):
            step, taking = self._held_sync(member)
            found += [step, Pause(HELD_MS)]
            taken.append(taking)
        self.members = punctual
        self.leader = punctual[0] if self.leader not in punctual and punctual else self.leader
        self.state = PREPARING if punctual else EMPTY
        return [*found, Pause(EXPIRED_MS), *taken]

    def _lose(self) -> list[Action]:
        """A member that waits for the others closes its connection; it stays a member."""
        member = self.dice.choice([each for each in self.members if self.waiting.get(each.name)])
        lost = Receive(to=coordinator(GROUP), connection=self.waiting[member.name], answer_ms=LOST_MS)
        self.waiting[member.name] = ""
        return [lost]

    def _wait_for_all(self, member: Member, version: int, identity: Any) -> list[Action]:
        """Send a join that is answered when every member has joined."""
        self.held += 1
        connection = self.waiting[member.name] = f"held {self.held}"
        self.state = PREPARING
        return [
            self._join(member, version, identity, connection=connection, hold=True),
            Pause(HELD_MS),
            *self._completed(),
        ]

    def _completed(self) -> list[Action]:
        """Return what takes the answers of all joins, if nobody is missing any more."""
        if not self.members:
            self.state, self.leader = EMPTY, None
            return []
        if any(each.name not in self.waiting for each in self.members):
            return []
        if self.leader not in self.members:
            self.leader = self.members[0]
        self.state = SYNCING
        order = self.dice.sample(self.members, len(self.members))
        return [step for each in order for step in self._received(each)]

    def _received(self, member: Member) -> list[Action]:
        connection = self.waiting.pop(member.name)
        save = {member.alias: "member_id", GENERATION: "generation_id"}
        taken = Receive(to=coordinator(GROUP), connection=connection, save=save, answer_ms=WAITING_MS)
        return [taken] if connection else []

    def _rejoin(self) -> list[Action]:
        late = [each for each in self.members if each.name not in self.waiting]
        if not late:
            return []
        member = self.dice.choice(late)
        return self._wait_for_all(member, self._version(member), Saved(member.alias))

    def _same_join(self) -> list[Action]:
        """A follower that joins once more is answered at once, a leader while assignments are awaited, too."""
        member = self.dice.choice(self.members)
        if member is self.leader and self.state == STABLE:
            return self._wait_for_all(member, self._version(member), Saved(member.alias))
        return [self._join(member, self._version(member), Saved(member.alias), answer_ms=WAITING_MS)]

    def _renewed_join(self) -> list[Action]:
        """Another subscription begins a rebalance."""
        member = self.dice.choice(self.members)
        member.renewals += 1
        return self._wait_for_all(member, self._version(member), Saved(member.alias))

    def _replace(self) -> list[Action]:
        """An instance comes back without its id: it gets a new one, and the old one is fenced."""
        dice = self.dice
        member = dice.choice(self._may_come_back())
        # A join of the old id gets its answer when the new one takes its place.
        replaced = self._received(member) if member.name in self.waiting else []
        if dice.random() < 0.25:
            member.renewals += 1
            is_quiet = False
        else:
            is_quiet = self.state == STABLE
        member.life += 1
        version = self._version(member)
        if not is_quiet:
            return [*self._wait_for_all(member, version, ""), *replaced]
        return [self._join(member, version, "", save={member.alias: "member_id"}, answer_ms=WAITING_MS)]

    def _assignments(self) -> list[tuple[Any, bytes]]:
        """Return what a leader sends: mostly something for everybody."""
        dice = self.dice
        right = [(Saved(each.alias), each.name.encode()) for each in self.members]
        odd: list[list[tuple[Any, bytes]]] = [
            [], right[:1], right[1:], [*right, ("nobody", b"x")], [*right, (right[0][0], b"again")],
            [(each, b"") for each, _ in right], [("", b"x")],
        ]  # fmt: skip
        return usually(dice, right, odd, 0.3)

    def _sync(self, member: Member, **how: Any) -> Action:
        version = version_of(self.dice, SYNC_GROUP, 3 if member.instance else 0)
        more: dict[str, Any] = {"instance": member.instance} if member.instance else {}
        more["protocol_type"] = self.kind
        more["assignments"] = self._assignments() if member is self.leader else []
        return sync(version, GROUP, member=Saved(member.alias), generation=Saved(GENERATION), **more, **how)

    def _sync_all(self, share: float = 0.8) -> list[Action]:
        """Everybody asks for the assignments, or only some; those who ask before the leader wait."""
        dice = self.dice
        order = [
            each for each in dice.sample(self.members, len(self.members)) if each is self.leader or dice.random() < 0.8
        ]
        found: list[Action] = []
        held: list[Action] = []
        for member in order:
            if member is self.leader or self.state == STABLE:
                found += [self._sync(member), *held]
                self.state, held = STABLE, []
            else:
                step, taken = self._held_sync(member)
                found += [step, Pause(HELD_MS)]
                held.append(taken)
        return found

    def _held_sync(self, member: Member) -> tuple[Action, Action]:
        self.held += 1
        place: dict[str, Any] = {"connection": f"held {self.held}"}
        taken = Receive(to=coordinator(GROUP), answer_ms=WAITING_MS, **place)
        return self._sync(member, hold=True, **place), taken

    def _interrupted_sync(self) -> list[Action]:
        """A follower waits for its assignment when another rebalance begins."""
        followers = [each for each in self.members if each is not self.leader]
        if not followers:
            return self._sync_all()
        step, taken = self._held_sync(self.dice.choice(followers))
        acts = {self._renewed_join: 1.0, self._leave: 1.0}
        if len(self.members) < len(self.everybody):
            acts[self._enter] = 2.0
        if self._may_come_back():
            acts[self._replace] = 2.0
        return [step, Pause(HELD_MS), *weighted(self.dice, acts)(), taken]

    def _late_sync(self) -> list[Action]:
        """Ask once more for what there is; what a leader sends now is ignored."""
        return [self._sync(self.dice.choice(self.members), answer_ms=WAITING_MS)]

    def _leave(self) -> list[Action]:
        """One or two members leave, by id or by instance; a rebalance begins for the others."""
        dice = self.dice
        version = version_of(dice, LEAVE_GROUP)
        may = self._may_leave()
        most = 1 if version < MANY_LEAVE_FROM else 2
        leaving = dice.sample(may, min(len(may), dice.randint(1, most)))
        rows = [
            usually(dice, (Saved(each.alias), each.instance if version >= MANY_LEAVE_FROM else None),
                    (("", each.instance),) if each.instance and version >= MANY_LEAVE_FROM else
                    ((Saved(each.alias), None),), 0.4)
            for each in leaving
        ]  # fmt: skip
        if version >= MANY_LEAVE_FROM and dice.random() < 0.15:
            rows.append(dice.choice((rows[0], ("nobody", None), ("", "i-nobody"))))
        gone = [step for each in leaving if each.name in self.waiting for step in self._received(each)]
        self.members = [each for each in self.members if each not in leaving]
        for each in leaving:
            each.life += each.life < LIVES - 1
        if self.leader not in self.members:
            self.leader = self.members[0] if self.members else None
        if self.state in {STABLE, SYNCING}:
            self.state = PREPARING
        return [leave(version, GROUP, members=rows), *gone, *self._completed()]

    def _protocols(self, member: Member) -> Any:
        """Return a subscription that no other member has; answers are told apart by it.

        What cannot be read is short: a member that claims more topics than it sends is never answered by Kafka.
        """
        topics = ("t", member.name, *(["u"] * member.renewals))
        return subscribing(*topics) if self.is_legible else (("range", f"{member.name}{member.renewals}".encode()),)
