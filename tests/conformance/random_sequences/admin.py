"""Sequences about topics and configurations: made, changed and deleted with odd inputs, then described.

After a change every broker must know of it before the next request, or the answers are a race.

Nothing changes brokers, which all sequences share, and no replica moves: moves take their time.
"""

import random
from typing import Any

from tests.conformance.apis import (
    ALTER_CONFIGS,
    ALTER_PARTITION_REASSIGNMENTS,
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_TOPICS,
    DESCRIBE_CLUSTER,
    DESCRIBE_CONFIGS,
    ELECT_LEADERS,
    INCREMENTAL_ALTER_CONFIGS,
    METADATA,
)
from tests.conformance.random_sequences.barriers import Barriers
from tests.conformance.random_sequences.config_values import changes, setting, settings
from tests.conformance.random_sequences.drawing import some, usually, version_of, weighted
from tests.conformance.requests import (
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    alter_configs,
    change_configs,
    create_partitions,
    create_topics,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_topics,
    elect_leaders,
    list_config_resources,
    list_reassignments,
    metadata,
    new_topic,
    reassign,
)
from tests.conformance.steps import (
    Action,
    BrokerNumber,
    Joined,
    Name,
    Saved,
    Target,
    Topic,
    TopicId,
    broker,
    exact,
    topic,
)

UNKNOWN_ID = "33333333-3333-3333-3333-333333333333"
B0, B1, B2 = BrokerNumber(0), BrokerNumber(1), BrokerNumber(2)
BAD_NAMES = ("", ".", "..", "a b", "é", "a/b", "x" * 250, "__cluster_metadata")


def draw(dice: random.Random) -> tuple[dict[str, Topic], list[Action]]:
    """Return the topics and actions of one sequence."""
    return {"a": topic((0,), (1,)), "b": topic((0, 1))}, _Admin(dice).actions(dice.randint(6, 12))


class _Admin:
    """One sequence being drawn."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.barriers = Barriers()

    def actions(self, count: int) -> list[Action]:
        steps = {
            self._create: 4, self._delete: 2, self._partitions: 3, self._change: 4, self._alter: 2, self._describe: 3,
            self._metadata: 2, self._describe_topics: 1.5, self._elect: 0.7, self._reassign: 0.7, self._resources: 0.3,
            self._cluster: 0.3,
        }  # fmt: skip
        found: list[Action] = [
            metadata(12, [name], save={f"first id {name}": "topics.0.topic_id"}, quiet=True) for name in "ab"
        ]
        for _ in range(count):
            found += weighted(self.dice, steps)()
        return found

    def _to(self) -> Target:
        return usually(self.dice, broker(0), (broker(1), broker(2)), 0.2)

    def _timeout(self) -> int:
        return usually(self.dice, 10_000, (0, -1), 0.04)

    def _name(self) -> Any:
        """Return the name of a topic: one that is there, or one that may be made."""
        colliding = {Joined((Name("c"), ".x")): 0.5, Joined((Name("c"), "_x")): 0.5}
        bad = {exact(self.dice.choice(BAD_NAMES)): 0.5}
        return weighted(self.dice, {"a": 4, "b": 3, "c": 3, "d": 2, **colliding, **bad})

    def _replicas(self) -> list[Any]:
        dice = self.dice
        return usually(
            dice,
            dice.choice([[B0], [B1], [B0, B1], [B2, B0], [B1, B2, B0]]),
            ([B0, B0], [99], [-1], [], [B0, 99]),
            0.15,
        )

    def _new_topic(self) -> dict[str, Any]:
        dice = self.dice
        configs = settings(dice) if dice.random() < 0.6 else []
        if dice.random() < 0.35:
            indexes = some(dice, lambda: dice.choice((0, 0, 1, 2, 3, -1)), 1) if dice.random() < 0.2 else [0, 1, 2]
            same = self._replicas()
            rows = [(index, usually(dice, same, (self._replicas(),), 0.2)) for index in indexes[: dice.randint(1, 3)]]
            row = new_topic(self._name(), assignments=rows, configs=configs)
            if dice.random() < 0.1:
                row.update(dice.choice(({"num_partitions": 1}, {"replication_factor": 1})))
            return row
        count = usually(dice, dice.randint(1, 3), (-1, 0, -2, 100_000), 0.15)
        factor = usually(dice, dice.randint(1, 3), (-1, 0, -2, 4, 32_767), 0.15)
        return new_topic(self._name(), count, factor, configs=configs)

    def _create(self) -> list[Action]:
        dice = self.dice
        version = version_of(dice, CREATE_TOPICS)
        rows = some(dice, self._new_topic, 3, least=usually(dice, 1, (0,), 0.05))
        only = dice.random() < 0.3
        return self.barriers.after(
            create_topics(version, *rows, validate_only=only, timeout=self._timeout(), to=self._to())
        )

    def _delete(self) -> list[Action]:
        dice = self.dice
        version = version_of(dice, DELETE_TOPICS)

        def one() -> Any:
            if version < 6 or dice.random() < 0.6:
                return self._name()
            ids = ({"name": None, "topic_id": UNKNOWN_ID}, {"name": None, "topic_id": None})
            # A topic of the same name may have come since.
            first = tuple({"name": None, "topic_id": Saved(f"first id {name}")} for name in "ab")
            return dice.choice(
                (TopicId("a"), TopicId("b"), *first, *ids, {"name": Name("a"), "topic_id": TopicId("a")})
            )

        return self.barriers.after(delete_topics(version, *some(dice, one, 2), timeout=self._timeout(), to=self._to()))

    def _partitions(self) -> list[Action]:
        dice = self.dice

        def one() -> tuple[Any, ...]:
            count = usually(dice, dice.randint(1, 5), (0, -1), 0.1)
            if dice.random() < 0.4:
                same = self._replicas()
                rows = [usually(dice, same, (self._replicas(),), 0.15) for _ in range(dice.randint(0, 3))]
                return self._name(), count, rows
            return self._name(), count

        version = version_of(dice, CREATE_PARTITIONS)
        rows = some(dice, one, 2, least=usually(dice, 1, (0,), 0.05))
        only = dice.random() < 0.3
        return self.barriers.after(
            create_partitions(version, *rows, validate_only=only, timeout=self._timeout(), to=self._to())
        )

    def _resource(self) -> tuple[int, Any]:
        """Return a topic, rarely a resource of a kind that does not exist."""
        if self.dice.random() < 0.06:
            return self.dice.choice((0, 3, 99, -1)), "a"
        return TOPIC_RESOURCE, self._name()

    def _change(self) -> list[Action]:
        dice = self.dice
        version = version_of(dice, INCREMENTAL_ALTER_CONFIGS)

        def one() -> tuple[int, Any, Any]:
            return *self._resource(), changes(dice, least=usually(dice, 1, (0,), 0.1))

        rows = some(dice, one, 2, least=usually(dice, 1, (0,), 0.05))
        only = dice.random() < 0.3
        return self.barriers.after(change_configs(version, *rows, validate_only=only, to=self._to()))

    def _alter(self) -> list[Action]:
        dice = self.dice
        version = version_of(dice, ALTER_CONFIGS)

        def one() -> tuple[int, Any, Any]:
            return *self._resource(), settings(dice, least=usually(dice, 1, (0,), 0.2))

        rows = some(dice, one, 2, least=usually(dice, 1, (0,), 0.05), repeat=0)
        # Kafka never answers a request that names a resource twice; unknown kinds are one kind to it.
        rows = list({(row[0] == TOPIC_RESOURCE, row[1]): row for row in rows}.values())
        only = dice.random() < 0.3
        return self.barriers.after(alter_configs(version, *rows, validate_only=only, to=self._to()))

    def _describe(self) -> list[Action]:
        dice = self.dice

        def one() -> tuple[int, Any, Any]:
            odd = (
                (BROKER_RESOURCE, BrokerNumber(1, as_text=True)),
                (BROKER_RESOURCE, exact("abc")),
                (CLIENT_METRICS_RESOURCE, exact("")),
                (GROUP_RESOURCE, exact("")),
                (0, exact("a")),
                (3, exact("")),
            )
            kind, name = usually(dice, (TOPIC_RESOURCE, self._name()), odd, 0.12)
            keys = None
            if kind != TOPIC_RESOURCE or dice.random() < 0.6:
                least = usually(dice, 1, (0,), 0.1) if kind == TOPIC_RESOURCE else 1
                keys = some(dice, lambda: setting(dice)[0], 3, least=least)
            return kind, name, keys

        version = version_of(dice, DESCRIBE_CONFIGS)
        return [describe_configs(version, *some(dice, one, 2, least=0), synonyms=dice.random() < 0.5, to=broker(0))]

    def _metadata(self) -> list[Action]:
        dice = self.dice
        # Older versions create what they name.
        version = version_of(dice, METADATA, 4)
        names = some(dice, self._name, 3, least=1)
        return [metadata(version, names, to=self._to(), include_topic_authorized_operations=dice.random() < 0.3)]

    def _describe_topics(self) -> list[Action]:
        dice = self.dice
        names = [each for each in some(dice, self._name, 3) if each != exact("")] or ["a"]
        cursor = None
        if dice.random() < 0.4:
            cursor = (usually(dice, dice.choice(names), (self._name(),), 0.2), dice.choice((0, 0, 1, 2, 9, -1)))
        limit = usually(dice, 2_000, (1, 2, 3, 0, -1), 0.4)
        return [describe_topics(0, *names, limit=limit, cursor=cursor, to=self._to())]

    def _indexes(self) -> list[int]:
        return some(self.dice, lambda: usually(self.dice, 0, (1, 2, 9, -1), 0.4), 2, least=0)

    def _elect(self) -> list[Action]:
        dice = self.dice
        topics = [(name, self._indexes()) for name in some(dice, self._name, 2, least=0)]
        version, kind = version_of(dice, ELECT_LEADERS), usually(dice, 0, (1, 7), 0.3)
        return self.barriers.after(elect_leaders(version, topics, kind, timeout=self._timeout(), to=self._to()))

    def _reassign(self) -> list[Action]:
        """Ask for what is refused or is so already."""
        dice = self.dice
        wanted = (None, [], [B0, B0], [99], [-1], [B0, 99])
        same = {("a", 0): [B0], ("a", 1): [B1], ("b", 0): [B0, B1]}

        def one() -> tuple[Any, Any]:
            topic = self._name()
            rows = [(index, usually(dice, None, (*wanted, same.get((topic, index))), 0.7)) for index in self._indexes()]
            return topic, rows

        version = version_of(dice, ALTER_PARTITION_REASSIGNMENTS)
        step = reassign(
            version, some(dice, one, 2, least=0), timeout=self._timeout(), allow=dice.random() < 0.8, to=self._to()
        )
        listed = [(name, self._indexes()) for name in some(dice, self._name, 2, least=0)]
        return [*self.barriers.after(step), list_reassignments(listed, to=self._to())]

    def _resources(self) -> list[Action]:
        kinds = some(self.dice, lambda: self.dice.choice((2, 2, 16, 0, 3, 99)), 2)
        return [list_config_resources(1, *kinds, to=self._to())]

    def _cluster(self) -> list[Action]:
        dice = self.dice
        version = version_of(dice, DESCRIBE_CLUSTER)
        kind = usually(dice, 1, (2, 3, 0), 0.4)
        return [describe_cluster(version, authorized=dice.random() < 0.5, endpoint_type=kind, to=self._to())]
