"""The configurations of throttled replication: lists of topics, rates of brokers, and the default of all brokers."""

from tests.conformance.apis import ALTER_CONFIGS, DESCRIBE_CONFIGS, INCREMENTAL_ALTER_CONFIGS, edges, every
from tests.conformance.requests import (
    APPEND,
    BROKER_RESOURCE,
    DELETE,
    SET,
    SUBTRACT,
    TOPIC_RESOURCE,
    alter_configs,
    change_configs,
    describe_configs,
)
from tests.conformance.steps import Action, BrokerNumber, Pause, broker, exact, sequence, topic

LEADER, FOLLOWER = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"
RATES = (
    "leader.replication.throttled.rate",
    "follower.replication.throttled.rate",
    "replica.alter.log.dirs.io.max.bytes.per.second",
)
CHANGES = every(INCREMENTAL_ALTER_CONFIGS)
ALL = exact("")
GOOD = ("0:0", "0:0,0:1,1:2", "*", "", "0:1, 1:0", " * ", "7:99", "0:0,0:0")
BAD = ("0-101", "0:101,*", "*,0:101", "a:1", "0:", ":0", "**", "0:101:2", "-1:0", "0:-1", "none", "[0:0]", "0:0;1:1")


def me(rank: int) -> BrokerNumber:
    """Return the name of a broker as a resource."""
    return BrokerNumber(rank, as_text=True)


def shown(*keys: str) -> list[Action]:
    """Describe configurations of t, when every broker's view has caught up."""
    return [Pause(60), describe_configs(4, (TOPIC_RESOURCE, "t", keys), synonyms=True)]


def rates(rank: int, version: int = 4, *, synonyms: bool = True) -> list[Action]:
    """Describe the rates of a broker, when its view has caught up."""
    resource = (BROKER_RESOURCE, me(rank), RATES)
    return [Pause(60), describe_configs(version, resource, synonyms=synonyms, to=broker(rank))]


@sequence(*CHANGES, t=topic((0,)))
def leader_list(version: int) -> list[Action]:
    """Set, replaced, removed."""

    def change(operation: int, value: str | None) -> list[Action]:
        return [change_configs(version, (TOPIC_RESOURCE, "t", [(LEADER, operation, value)])), *shown(LEADER)]

    return [*change(SET, "0:0,0:1"), *change(SET, "1:2"), *change(DELETE, None), *change(DELETE, None)]


@sequence(*CHANGES, t=topic((0,)))
def follower_list(version: int) -> list[Action]:
    """The other list, beside the first."""
    return [
        change_configs(version, (TOPIC_RESOURCE, "t", [(LEADER, SET, "0:0"), (FOLLOWER, SET, "0:1")])),
        *shown(LEADER, FOLLOWER),
        change_configs(version, (TOPIC_RESOURCE, "t", [(LEADER, DELETE, None), (FOLLOWER, SET, "*")])),
        *shown(LEADER, FOLLOWER),
    ]


@sequence(*CHANGES, t=topic((0,)))
def good_lists(version: int) -> list[Action]:
    """What a list may look like, and how it is shown."""
    found: list[Action] = []
    for value in GOOD:
        found += [change_configs(version, (TOPIC_RESOURCE, "t", [(LEADER, SET, value)])), *shown(LEADER)]
    return found


@sequence(*CHANGES, t=topic((0,)))
def bad_lists(version: int) -> list[Action]:
    """What it may not: 40, and the value of before stays."""
    return [
        change_configs(version, (TOPIC_RESOURCE, "t", [(LEADER, SET, "0:7")])),
        *(change_configs(version, (TOPIC_RESOURCE, "t", [(LEADER, SET, value)])) for value in BAD),
        *(change_configs(version, (TOPIC_RESOURCE, "t", [(FOLLOWER, SET, value)])) for value in BAD[:4]),
        *shown(LEADER, FOLLOWER),
    ]


@sequence(*CHANGES, t=topic((0,)))
def grown_lists(version: int) -> list[Action]:
    """Appended to nothing, again, to something, to everything; subtracted until nothing is left."""

    def change(operation: int, value: str) -> list[Action]:
        return [change_configs(version, (TOPIC_RESOURCE, "t", [(FOLLOWER, operation, value)])), *shown(FOLLOWER)]

    return [
        *change(APPEND, "0:1"),
        *change(APPEND, "0:1"),
        *change(APPEND, "1:1,2:1"),
        *change(SUBTRACT, "0:1"),
        *change(SUBTRACT, "0:1"),
        *change(SUBTRACT, "1:1,2:1"),
        *change(APPEND, "0:2"),
        *change(SET, "*"),
        *change(APPEND, "0:1"),
        *change(SUBTRACT, "0:1"),
        *change(SUBTRACT, "*"),
    ]


@sequence(*CHANGES, t=topic((0,)))
def bad_changes_of_lists(version: int) -> list[Action]:
    """A bad item that is appended, null values, both at once, and only validating."""
    return [
        change_configs(version, (TOPIC_RESOURCE, "t", [(LEADER, APPEND, "a:b")])),
        change_configs(version, (TOPIC_RESOURCE, "t", [(LEADER, SET, None)])),
        change_configs(version, (TOPIC_RESOURCE, "t", [(LEADER, APPEND, None)])),
        change_configs(version, (TOPIC_RESOURCE, "t", [(LEADER, SET, "0:1"), (FOLLOWER, SET, "0")])),
        change_configs(version, (TOPIC_RESOURCE, "t", [(LEADER, SET, "0:1")]), validate_only=True),
        change_configs(version, (TOPIC_RESOURCE, "t", [(LEADER, SET, "zero")]), validate_only=True),
        change_configs(version, (TOPIC_RESOURCE, exact("nope"), [(LEADER, SET, "0:1")])),
        *shown(LEADER, FOLLOWER),
    ]


@sequence(*every(ALTER_CONFIGS), t=topic((0,)))
def replaced_lists(version: int) -> list[Action]:
    """AlterConfigs replaces both lists; what it does not name goes."""
    return [
        alter_configs(version, (TOPIC_RESOURCE, "t", [(LEADER, "0:0"), (FOLLOWER, "0:1")])),
        *shown(LEADER, FOLLOWER),
        alter_configs(version, (TOPIC_RESOURCE, "t", [(FOLLOWER, "*")])),
        *shown(LEADER, FOLLOWER),
        alter_configs(version, (TOPIC_RESOURCE, "t", [(FOLLOWER, "0:0:0")])),
        alter_configs(version, (TOPIC_RESOURCE, "t", [(FOLLOWER, None)])),
        *shown(LEADER, FOLLOWER),
        alter_configs(version, (TOPIC_RESOURCE, "t", [])),
        *shown(LEADER, FOLLOWER),
    ]


@sequence(*every(DESCRIBE_CONFIGS), t=topic((0,), leader_replication_throttled_replicas="0:0"))
def described_lists(version: int) -> list[Action]:
    """Given when the topic was created; the other one has its default."""
    return [
        describe_configs(version, (TOPIC_RESOURCE, "t", [LEADER, FOLLOWER])),
        describe_configs(version, (TOPIC_RESOURCE, "t", [LEADER, FOLLOWER]), synonyms=True),
    ]


@sequence(*CHANGES)
def all_rates(version: int) -> list[Action]:
    """Each rate appears while it is set, and only then."""
    names = [(key, SET, str(2**40 + place)) for place, key in enumerate(RATES)]
    return [
        *rates(0),
        change_configs(version, (BROKER_RESOURCE, me(0), names)),
        *rates(0),
        change_configs(version, (BROKER_RESOURCE, me(0), [(RATES[0], DELETE, None)])),
        *rates(0),
        change_configs(version, (BROKER_RESOURCE, me(0), [(key, DELETE, None) for key in RATES[1:]])),
        *rates(0),
    ]


@sequence(*CHANGES)
def bad_rates(version: int) -> list[Action]:
    """Negative, no numbers, too large, null, appended to."""
    found: list[Action] = []
    for key in RATES:
        found += [
            change_configs(version, (BROKER_RESOURCE, me(1), [(key, SET, value)]), to=broker(1))
            for value in ("-1", "abc", "1.5", "", "9223372036854775808", None)
        ]
        found.append(change_configs(version, (BROKER_RESOURCE, me(1), [(key, APPEND, "5")]), to=broker(1)))
    return [*found, *rates(1)]


@sequence(*CHANGES)
def rate_of_all_brokers(version: int) -> list[Action]:
    """The default of all brokers, one broker's own value above it, and the default again."""
    key = RATES[1]
    return [
        change_configs(version, (BROKER_RESOURCE, ALL, [(key, SET, "5000000000")])),
        *rates(1),
        change_configs(version, (BROKER_RESOURCE, me(1), [(key, SET, "2000000000")]), to=broker(1)),
        *rates(1),
        *rates(2),
        change_configs(version, (BROKER_RESOURCE, me(1), [(key, DELETE, None)]), to=broker(1)),
        *rates(1),
        change_configs(version, (BROKER_RESOURCE, ALL, [(key, DELETE, None)])),
        *rates(1),
    ]


@sequence(*CHANGES)
def bad_rates_of_all_brokers(version: int) -> list[Action]:
    """The same checks as for one."""
    return [
        *(
            change_configs(version, (BROKER_RESOURCE, ALL, [(RATES[0], SET, value)]))
            for value in ("-1", "abc", "", None)
        ),
        change_configs(version, (BROKER_RESOURCE, ALL, [(RATES[0], SET, "1000000000000")]), validate_only=True),
        *rates(2),
    ]


@sequence(*CHANGES)
def largest_and_smallest_rates(version: int) -> list[Action]:
    """0 and the largest number."""
    found: list[Action] = []
    for value in ("9223372036854775807", "0"):
        found += [
            change_configs(version, (BROKER_RESOURCE, me(2), [(RATES[2], SET, value)]), to=broker(2)),
            *rates(2),
        ]
    return [
        *found,
        change_configs(version, (BROKER_RESOURCE, me(2), [(RATES[2], DELETE, None)]), to=broker(2)),
        *rates(2),
    ]


@sequence(*every(DESCRIBE_CONFIGS))
def described_rates(version: int) -> list[Action]:
    """In every version, with and without where they come from."""
    key = RATES[0]
    return [
        change_configs(1, (BROKER_RESOURCE, me(0), [(key, SET, "3000000000")])),
        *rates(0, version),
        *rates(0, version, synonyms=False),
        change_configs(1, (BROKER_RESOURCE, me(0), [(key, DELETE, None)])),
        *rates(0, version),
    ]


@sequence(*edges(INCREMENTAL_ALTER_CONFIGS), t=topic((0,)))
def lists_and_rates_together(version: int) -> list[Action]:
    """One request for a topic and a broker, as tools send it; one of both is refused without the other."""
    good = (BROKER_RESOURCE, me(0), [(RATES[0], SET, "4000000000")])
    return [
        change_configs(version, (TOPIC_RESOURCE, "t", [(LEADER, SET, "0:0")]), good),
        change_configs(version, (TOPIC_RESOURCE, "t", [(LEADER, SET, "x")]), good),
        change_configs(
            version, (TOPIC_RESOURCE, "t", [(LEADER, DELETE, None)]), (BROKER_RESOURCE, me(0), [(RATES[0], SET, "x")])
        ),
        *shown(LEADER),
        change_configs(version, (BROKER_RESOURCE, me(0), [(RATES[0], DELETE, None)])),
        *rates(0),
    ]
