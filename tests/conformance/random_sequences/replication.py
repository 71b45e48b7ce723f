"""Sequences about replicas: requests to leaders, to followers and elsewhere, elections, reassignments, descriptions.

A follower learns of a new high watermark with its next fetch, half a second later at most, and so does a new leader
of its followers' logs. Whatever reads waits for that after whatever writes. Reassignments are awaited.

Not drawn, since Syncline means to answer otherwise: two plans for one partition that both can be carried out, and a
cancellation that would have to restore the order of the replicas (docs/divergences.md, Administration).
"""

import random
from dataclasses import replace
from typing import Any

from tests.conformance.apis import (
    ALTER_PARTITION_REASSIGNMENTS,
    ALTER_REPLICA_LOG_DIRS,
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_TOPICS,
    DESCRIBE_CLUSTER,
    DESCRIBE_QUORUM,
    ELECT_LEADERS,
    FETCH,
    INCREMENTAL_ALTER_CONFIGS,
)
from tests.conformance.random_sequences.barriers import BROKERS, Barriers
from tests.conformance.random_sequences.data import CONFIGS, UNASSIGNED, Data
from tests.conformance.random_sequences.drawing import some, usually, version_of, weighted
from tests.conformance.requests import (
    METADATA_TOPIC,
    PREFERRED,
    SET,
    TOPIC_RESOURCE,
    UNCLEAN,
    alter_log_dirs,
    change_configs,
    create_partitions,
    create_topics,
    delete_topics,
    describe_cluster,
    describe_quorum,
    describe_topics,
    elect_leaders,
    fetch,
    list_reassignments,
    new_topic,
    reassign,
)
from tests.conformance.steps import Action, BrokerNumber, Pause, Receive, Step, Target, Topic, broker, exact, topic

# The longest wait of a follower's fetch, and some time for the answer.
SETTLED_MS = 700
PARKED_MS, HELD_MS = 2_500, 50
REPLICA_EPOCH_FROM = 15
BETWEEN_BROKERS = ((52, 0), (53, 1), (56, 2), (56, 3), (58, 0), (59, 0), (62, 4), (63, 1), (67, 0), (70, 0), (73, 0))
REPLICAS = {("t", 0): [0, 1], ("t", 1): [1, 2], ("t", 2): [2, 0], ("u", 0): [0, 2, 1]}
CHANGES = (
    ("min.insync.replicas", ("1", "2", "3", "4")), ("max.message.bytes", ("120", "1048588")),
    ("message.timestamp.type", ("CreateTime", "LogAppendTime")), ("message.timestamp.after.max.ms", ("0", "3600000")),
    ("message.timestamp.before.max.ms", ("1000", "9223372036854775807")), ("index.interval.bytes", ("0", "4096")),
    ("unclean.leader.election.enable", ("true", "false")), ("flush.messages", ("1", "1000")),
)  # fmt: skip


def draw(dice: random.Random) -> tuple[dict[str, Topic], list[Action]]:
    """Return the topics and actions of one sequence."""
    t = topic(*(tuple(REPLICAS["t", index]) for index in range(3)))
    return {"t": t, "u": Topic((tuple(REPLICAS["u", 0]),), dice.choice(CONFIGS))}, _Replication(dice).actions(
        dice.randint(6, 14)
    )


class _Replication(Data):
    """One sequence being drawn."""

    current_epochs = (0, 0, 1, 2, -2)
    replicas = (UNASSIGNED, *(BrokerNumber(rank) for rank in range(BROKERS)))
    odd_replicas_share = 0.25

    def __init__(self, dice: random.Random) -> None:
        super().__init__(dice)
        self.barriers = Barriers()
        self.assigned = {place: list(ranks) for place, ranks in REPLICAS.items()}
        self.closing = self.parked = 0

    def actions(self, count: int) -> list[Action]:
        writes = {self._produce: 6.0, self._delete: 2.0}
        changes = {
            self._elect: 3.0,
            self._reassign: 4.0,
            self._change: 1.0,
            self._recreate: 0.4,
            self._more_partitions: 0.6,
        }
        reads = {
            self._fetch: 6.0, self._session: 4.0, self._list_offsets: 3.0, self._epochs: 3.0, self._producers: 1.0,
            self._metadata: 1.0, self._sizes: 1.0, self._list_reassignments: 1.0, self._describe_topics: 2.0,
            self._quorum: 0.3, self._cluster: 0.3, self._between_brokers: 0.3, self._parked: 2.0,
            self._move_directories: 0.3,
        }  # fmt: skip
        found = [*self._produce(), *self._produce()]
        is_settled = False
        for _ in range(count):
            step = weighted(self.dice, {**writes, **changes, **reads})
            if step in reads and not is_settled:
                found.append(Pause(SETTLED_MS))
            is_settled = step in reads or (step in changes and is_settled)
            found += step()
            is_settled = is_settled and step not in changes
        return found

    def _to(self) -> Target:
        return weighted(self.dice, {broker(0): 5, broker(1): 3, broker(2): 2})

    def _partition(self, topic: Any) -> int:
        return weighted(self.dice, {0: 6, 1: 3, 2: 2, 3: 0.7, -1: 0.1} if topic == "t" else {0: 9, 1: 0.3, -1: 0.2})

    def _fetch(self) -> list[Action]:
        """Sometimes with the epoch of a replica, which no client has."""
        [step] = super()._fetch()
        if not (isinstance(step, Step) and isinstance(step.body, dict) and step.version >= REPLICA_EPOCH_FROM):
            return [step]
        state = step.body.get("replica_state")
        # Of a broker's former process, Kafka looks at offsets before it looks at the epoch.
        if state is None or isinstance(state["replica_id"], BrokerNumber) or self.dice.random() < 0.5:
            return [step]
        return [
            replace(step, body={**step.body, "replica_state": {**state, "replica_epoch": self.dice.choice((0, 5))}})
        ]

    def _parked(self) -> list[Action]:
        """A fetch waits while something happens to its partitions."""
        dice = self.dice
        self.parked += 1
        place: dict[str, Any] = {"to": self._to(), "connection": f"parked {self.parked}"}
        version = version_of(dice, FETCH)
        held = fetch(
            version, self._fetch_rows(version, in_session=False), max_wait=PARKED_MS, min_bytes=1_000_000,
            hold=True, in_order=True, **place,
        )  # fmt: skip
        act = weighted(dice, {self._produce: 3.0, self._delete: 1.0, self._elect: 2.0, self._reassign: 3.0,
                              self._recreate: 0.5})  # fmt: skip
        return [held, Pause(HELD_MS), *act(), Pause(SETTLED_MS), Receive(**place)]

    def _recreate(self) -> list[Action]:
        """Delete u, and mostly make it again: its id is another one, which nobody but the brokers knows."""
        dice = self.dice
        gone = self.barriers.after(delete_topics(version_of(dice, DELETE_TOPICS), "u", to=self._to()))
        self.producing.ends.pop(("u", 0), None)
        self.assigned.pop(("u", 0), None)
        if dice.random() < 0.3:
            return gone
        wanted = self.assigned["u", 0] = dice.sample(range(BROKERS), dice.choice((1, 2, 3)))
        row = new_topic("u", assignments=[(0, _numbers(wanted))], configs={"retention.ms": "-1"})
        return [*gone, *self.barriers.after(create_topics(version_of(dice, CREATE_TOPICS), row, to=self._to()))]

    def _more_partitions(self) -> list[Action]:
        dice = self.dice
        sizes = {len(ranks) for (each, _), ranks in self.assigned.items() if each == "t"}
        if len(sizes) > 1:
            # Which partition gives the new ones their number of replicas, is chance in Kafka.
            return self._elect()
        rows = [dice.sample(range(BROKERS), usually(dice, *sizes, (1, 2, 3), 0.2)) for _ in range(dice.randint(1, 2))]
        step = create_partitions(
            version_of(dice, CREATE_PARTITIONS), ("t", 3 + len(rows), [_numbers(each) for each in rows]), to=self._to()
        )
        return self.barriers.after(step)

    def _indexes(self, topic: Any, least: int = 0) -> list[int]:
        return some(self.dice, lambda: self._partition(topic), 3, least=least)

    def _topics(self) -> list[tuple[Any, list[int]]]:
        return [(each, self._indexes(each)) for each in some(self.dice, self._topic, 2, least=0)]

    def _elect(self) -> list[Action]:
        dice = self.dice
        topics = usually(dice, self._topics() or [("t", [0, 1, 2])], (None,), 0.15)
        version, kind = version_of(dice, ELECT_LEADERS), weighted(dice, {PREFERRED: 6, UNCLEAN: 2, 7: 0.3})
        step = elect_leaders(version, topics, kind, timeout=usually(dice, 10_000, (0, -1), 0.04), to=self._to())
        return self.barriers.after(step)

    def _plans_of(self, topic: Any, *, allow: bool) -> list[tuple[int, Any]]:
        indexes = dict.fromkeys(self._indexes(topic))
        return [plan for index in indexes for plan in self._plans(topic, index, allow=allow)]

    def _plans(self, topic: Any, index: int, *, allow: bool) -> list[tuple[int, Any]]:
        """Return the plans of a request for one partition: mostly one."""
        dice, present = self.dice, self.assigned.get((topic, index))
        odd: tuple[Any, ...] = (None, [], [0, 0], [99], [-1], [0, 99])
        if present is None or dice.random() < 0.2:
            return [(index, _numbers(dice.choice(odd)))] * usually(dice, 1, (2,), 0.1)
        missing = [rank for rank in range(BROKERS) if rank not in present]
        if missing and allow and dice.random() < 0.25:
            return [(index, _numbers([*present, dice.choice(missing)])), (index, None)]
        wanted = dice.sample(range(BROKERS), usually(dice, len(present), (1, 2, 3), 0.5))
        if allow or len(wanted) == len(present):
            self.assigned[topic, index] = wanted
        return [(index, _numbers(wanted))]

    def _reassign(self) -> list[Action]:
        dice = self.dice
        version, timeout = version_of(dice, ALTER_PARTITION_REASSIGNMENTS), usually(dice, 10_000, (0, -1), 0.04)
        # Only the newer version can forbid another number of replicas.
        allow = version == 0 or dice.random() < 0.8
        before = dict(self.assigned)
        rows = [
            (
                each,
                [
                    plan
                    for index in dict.fromkeys(self._indexes(each))
                    for plan in self._plans(each, index, allow=allow)
                ],
            )
            for each in dict.fromkeys(some(dice, self._topic, 2, least=usually(dice, 1, (0,), 0.1)))
        ]
        if timeout <= 0:
            self.assigned = before
        step = reassign(version, rows, timeout=timeout, allow=allow, to=self._to())
        done = list_reassignments({"t": [0, 1, 2, 3, 4], "u": [0]}, settle={"topics": []}, quiet=True)
        return [*self.barriers.after(step), done, *self.barriers.wait()]

    def _list_reassignments(self) -> list[Action]:
        return [list_reassignments(usually(self.dice, self._topics(), (None,), 0.2), to=self._to())]

    def _change(self) -> list[Action]:
        dice = self.dice

        def one() -> tuple[str, int, str]:
            key, values = dice.choice(CHANGES)
            return key, SET, dice.choice(values)

        changes = list({each[0]: each for each in some(dice, one, 2)}.values())
        version = version_of(dice, INCREMENTAL_ALTER_CONFIGS)
        return self.barriers.after(change_configs(version, (TOPIC_RESOURCE, dice.choice("tu"), changes), to=self._to()))

    def _describe_topics(self) -> list[Action]:
        dice = self.dice
        names = [each for each in some(dice, self._topic, 3) if each != exact("")] or ["t"]
        cursor = None
        if dice.random() < 0.5:
            cursor = (usually(dice, dice.choice(names), (self._topic(),), 0.2), dice.choice((0, 1, 2, 3, 9, -1)))
        limit = usually(dice, 2_000, (1, 2, 3, 4, 0, -1), 0.5)
        return [describe_topics(0, *names, limit=limit, cursor=cursor, to=self._to())]

    def _move_directories(self) -> list[Action]:
        """Ask for directories that no broker has."""
        version = version_of(self.dice, ALTER_REPLICA_LOG_DIRS)
        rows = [(path, self._topics()) for path in some(self.dice, lambda: self.dice.choice(("/nowhere", "", "a")), 2)]
        return [alter_log_dirs(version, *rows, to=self._to())]

    def _quorum(self) -> list[Action]:
        dice = self.dice
        version = version_of(dice, DESCRIBE_QUORUM)
        odd = ([(METADATA_TOPIC, (1,))], [("t", (0,))], [], [(METADATA_TOPIC, ())], [(METADATA_TOPIC, (0, 0))])
        return [describe_quorum(version, usually(dice, [(METADATA_TOPIC, (0,))], odd, 0.4), to=self._to())]

    def _cluster(self) -> list[Action]:
        version, kind = version_of(self.dice, DESCRIBE_CLUSTER), usually(self.dice, 1, (2, 0), 0.3)
        is_authorized, is_fenced = self.dice.random() < 0.5, version > 1 and self.dice.random() < 0.5
        asked = {"authorized": is_authorized, "fenced": is_fenced, "endpoint_type": kind}
        return [describe_cluster(version, **asked, to=self._to())]

    def _between_brokers(self) -> list[Action]:
        """Ask a broker for what only brokers and controllers ask each other."""
        self.closing += 1
        key, version = self.dice.choice(BETWEEN_BROKERS)
        return [Step(key=key, version=version, body={}, to=self._to(), connection=f"closing {self.closing}")]


def _numbers(ranks: list[int] | None) -> Any:
    """Return broker ids; what is no rank stays."""
    return ranks and [BrokerNumber(rank) if 0 <= rank < BROKERS else rank for rank in ranks]
