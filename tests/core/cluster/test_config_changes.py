"""AlterConfigs and IncrementalAlterConfigs: what is refused, and what changes."""

import time
from typing import Any

import pytest

from syncline.core.cluster.config_changes import KEYS_MAX, KeyChange, ResourceChange, alter_configs
from syncline.model.metadata import (
    CLUSTER_DEFAULTS,
    ConfigResource,
    ConfigsChanged,
    MetadataImage,
    ResourceType,
)
from tests.core.controller_world import ELR, image, partition

SET, DELETE, APPEND, SUBTRACT = range(4)
TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32


def start(**configs: str) -> MetadataImage:
    """Return S0 with configurations of its topic, and the cluster-wide minimum that ELR needs."""
    topic = image(configs={name.replace("_", "."): value for name, value in configs.items()})
    return topic.apply([ConfigsChanged(CLUSTER_DEFAULTS, {"min.insync.replicas": "1"})], 201)


def alter(
    before: MetadataImage, *keys: tuple[str, int, str | None], kind: int = TOPIC, name: str = "t", replace: bool = False
) -> tuple[int, str | None, MetadataImage]:
    """Alter one resource; return code, message and the image afterwards."""
    resource = ResourceChange(kind, name, tuple(KeyChange(*key) for key in keys))
    decision = alter_configs(before, [resource], ELR, receiver=1, replace=replace)
    (result,) = decision.answer
    return int(result.error), result.message, before.apply(decision.changes, before.version + 1)


@pytest.mark.parametrize(
    ("request_", "code", "message"),
    [
        ({"keys": [("x", SET, "1")]}, 40, "Unknown topic config name: x"),
        ({"keys": [("x", DELETE, None)]}, 0, None),
        (
            {"keys": [("retention.ms", SET, "-2")]},
            40,
            "Invalid value -2 for configuration retention.ms: Value must be at least -1",
        ),
        ({"keys": [("retention.ms", SET, None)]}, 42, "Null value not supported for : retention.ms"),
        ({"keys": [("cleanup.policy", APPEND, None)]}, 42, "Null value not supported for : cleanup.policy"),
        ({"keys": [("retention.ms", 9, "1")]}, -1, "Unknown operation type 9"),
        (
            {"keys": [("retention.ms", SET, "1"), ("retention.ms", SET, "2")]},
            42,
            "Error due to duplicate config keys",
        ),
        ({"keys": [("retention.ms", SET, "1")], "name": "nope"}, 3, "The topic 'nope' does not exist."),
        ({"keys": [("retention.ms", SET, "1")], "name": ""}, 42, "Default topic resources are not allowed."),
        ({"keys": [("x", SET, "1")], "kind": 3}, 42, "Unknown resource type 3"),
        (
            {"keys": [("retention.ms", APPEND, "1")]},
            40,
            "Can't APPEND to key retention.ms because its type is not LIST.",
        ),
        (
            {"keys": [("leader.replication.throttled.rate", SET, "-1")], "kind": BROKER, "name": "1"},
            42,
            "Invalid value -1 for configuration leader.replication.throttled.rate: Value must be at least 0",
        ),
        (
            {"keys": [("node.id", SET, "1")], "kind": BROKER, "name": "1"},
            42,
            "Cannot update these configs dynamically: [node.id]",
        ),
        (
            {"keys": [("ssl.protocol", SET, "x")], "kind": BROKER, "name": ""},
            42,
            "Cannot update these configs at default cluster level, broker id must be specified: [ssl.protocol]",
        ),
        (
            {"keys": [("listeners", SET, "x")], "kind": BROKER, "name": "1"},
            42,
            "Cannot update these configs dynamically: [listeners]",
        ),
        ({"keys": [("unknown.name", SET, "x")], "kind": BROKER, "name": "1"}, 0, None),
        (
            {"keys": [("num.io.threads", SET, "8")], "kind": BROKER, "name": "2"},
            42,
            "Unexpected broker id, expected 1, but received 2",
        ),
        (
            {"keys": [("num.io.threads", SET, "8")], "kind": BROKER, "name": "abc"},
            42,
            "Node id must be an integer, but it is: abc",
        ),
        (
            {"keys": [("num.io.threads", SET, "3")], "kind": BROKER, "name": "1"},
            42,
            (
                "Dynamic thread count update validation failed for num.io.threads=3, value should be at least half the"
                " current value 8"
            ),
        ),
        (
            {"keys": [("min.insync.replicas", SET, "2")], "kind": BROKER, "name": "1"},
            40,
            "Broker-level min.insync.replicas cannot be altered while ELR is enabled.",
        ),
        (
            # Also where the broker has no value of its own.
            {"keys": [("min.insync.replicas", DELETE, None)], "kind": BROKER, "name": "1"},
            40,
            "Broker-level min.insync.replicas cannot be altered while ELR is enabled.",
        ),
        (
            {"keys": [("min.insync.replicas", DELETE, None)], "kind": BROKER, "name": ""},
            40,
            "Cluster-level min.insync.replicas cannot be removed while ELR is enabled.",
        ),
        (
            {"keys": [], "kind": BROKER, "name": "", "replace": True},
            40,
            "Cluster-level min.insync.replicas cannot be removed while ELR is enabled.",
        ),
        ({"keys": [("x", SET, "INFO")], "kind": LOGGER, "name": "1"}, 40, "Logger x does not exist!"),
    ],
)
def test_answers_in_kafkas_words(request_: dict[str, Any], code: int, message: str | None) -> None:
    """Each request has Kafka's code and text."""
    keys = request_.pop("keys")

    assert alter(start(), *keys, **request_)[:2] == (code, message)


@pytest.mark.parametrize("where", ["", "1"])
def test_thread_count_is_compared_with_the_one_in_force(where: str) -> None:
    """Doubled step by step it may rise as far as one likes, and what was raised falls no faster than by half."""
    code, _, doubled = alter(start(), ("num.io.threads", SET, "16"), kind=BROKER, name=where)
    assert code == 0

    assert alter(doubled, ("num.io.threads", SET, "32"), kind=BROKER, name="1")[0] == 0
    assert alter(doubled, ("num.io.threads", SET, "7"), kind=BROKER, name="1")[:2] == (
        42,
        (
            "Dynamic thread count update validation failed for num.io.threads=7, value should be at least half the"
            " current value 16"
        ),
    )


def test_thread_count_is_reset_in_steps_and_hidden_by_a_brokers_own() -> None:
    """A broker compares what it has before and after, whoever has set it; what it does not use may be any number."""
    name = "num.network.threads"
    lowered = alter(start(), (name, SET, "1"), kind=BROKER, name="1")[2]

    assert alter(lowered, (name, DELETE, None), kind=BROKER, name="1")[:2] == (
        42,
        (
            "Dynamic thread count update validation failed for num.network.threads=3, value should not be greater than"
            " double the current value 1"
        ),
    )
    assert alter(lowered, (name, SET, "9"), kind=BROKER, name="")[0] == 0
    raised = alter(lowered, (name, SET, "2"), kind=BROKER, name="1")[2]
    assert alter(raised, (name, DELETE, None), kind=BROKER, name="1")[0] == 0


def test_values_that_an_older_syncline_took_are_taken_back_one_by_one() -> None:
    """They are in two places, and each stands in the way of any other change."""
    stored = [
        ConfigsChanged(CLUSTER_DEFAULTS, {"log.retention.ms": "0"}),
        ConfigsChanged(ConfigResource(ResourceType.BROKER, "1"), {"ssl.client.auth": "x", "log.roll.ms": "0"}),
    ]
    left = start().apply(stored, 202)
    change = ("log.segment.bytes", SET, "2000000")
    assert alter(left, change, kind=BROKER, name="")[0] == 42
    for name, where in (("ssl.client.auth", "1"), ("log.retention.ms", ""), ("log.roll.ms", "1")):
        code, _, left = alter(left, (name, DELETE, None), kind=BROKER, name=where)
        assert code == 0

    assert alter(left, change, kind=BROKER, name="")[0] == 0


@pytest.mark.parametrize("where", ["", "1"])
def test_values_that_contradict_each_other_are_refused_together(where: str) -> None:
    """No broker could use them, and each would end, at every start anew: nothing could take the value back."""
    per_address, overrides = "max.connections.per.ip", "max.connections.per.ip.overrides"
    refused = (42, f"{per_address} can be set to zero only if {overrides} property is set.")

    assert alter(start(), (per_address, SET, "0"), kind=BROKER, name=where)[:2] == refused
    code, _, with_overrides = alter(start(), (overrides, SET, "h:1"), kind=BROKER, name="")
    assert code == 0
    code, _, zero = alter(with_overrides, (per_address, SET, "0"), kind=BROKER, name=where)
    assert code == 0
    assert alter(zero, (overrides, DELETE, None), kind=BROKER, name="")[:2] == refused
    assert alter(zero, (overrides, SET, ""), kind=BROKER, name="1")[:2] == refused
    assert alter(zero, (per_address, DELETE, None), (overrides, SET, ""), kind=BROKER, name=where)[0] == 0


def test_resource_given_twice_is_refused_both_times() -> None:
    """Both entries are answered, and nothing changes."""
    resource = ResourceChange(TOPIC, "t", (KeyChange("retention.ms", SET, "1"),))
    decision = alter_configs(start(), [resource, resource], ELR, receiver=1)

    texts = [(int(result.error), result.message) for result in decision.answer]
    assert texts == [(42, "Each resource must appear at most once.")] * 2
    assert decision.changes == ()


@pytest.mark.parametrize(("kind", "name"), [(TOPIC, "t"), (BROKER, "1"), (BROKER, ""), (LOGGER, "1")])
@pytest.mark.parametrize("replace", [False, True])
def test_request_may_name_so_many_configurations_of_a_resource(kind: int, name: str, replace: bool) -> None:
    """A resource is decided on in one go: more of them are refused before any of them is looked at."""
    many = [(f"x.{number}", SET, "v") for number in range(KEYS_MAX + 1)]
    code, message, after = alter(start(), *many, kind=kind, name=name, replace=replace)
    few = alter(start(), *many[:KEYS_MAX], kind=kind, name=name, replace=replace)

    assert code == 44
    assert message is not None
    assert f"{KEYS_MAX + 1} configurations" in message
    assert message != few[1]
    assert after.configs == start().configs


@pytest.mark.parametrize("name", [" 1", "1 ", "1_0", "1" * 5_000, "2147483648"])
@pytest.mark.parametrize("kind", [BROKER, LOGGER])
def test_name_that_java_does_not_read_as_a_number_is_no_broker(kind: int, name: str) -> None:
    """Python's own reading takes spaces and underscores."""
    code, message, _ = alter(start(), ("num.io.threads", SET, "8"), kind=kind, name=name)
    assert (code, message) == (42, f"Node id must be an integer, but it is: {name}")


@pytest.mark.parametrize("name", ["1", "+1", "01"])
def test_broker_has_one_set_of_configurations_under_all_spellings_of_its_number(name: str) -> None:
    """Others would have no effect, and there is no end of them."""
    code, _, after = alter(start(), ("num.io.threads", SET, "8"), kind=BROKER, name=name)
    assert (code, after.broker_configs(1)) == (0, {"num.io.threads": "8"})


def test_broker_given_in_two_spellings_is_refused_both_times() -> None:
    """The two changes are of one resource."""
    keys = (KeyChange("num.io.threads", SET, "8"),)
    twice = [ResourceChange(BROKER, name, keys) for name in ("1", "01")]
    decision = alter_configs(start(), twice, ELR, receiver=1)
    assert not decision.changes
    assert {result.message for result in decision.answer} == {"Each resource must appear at most once."}


def test_one_bad_key_keeps_all_of_its_resource_and_none_of_another() -> None:
    """Each resource is independent."""
    before = start()
    good = ResourceChange(BROKER, "1", (KeyChange("num.io.threads", SET, "9"),))
    bad = ResourceChange(TOPIC, "t", (KeyChange("retention.ms", SET, "5"), KeyChange("x", SET, "1")))
    decision = alter_configs(before, [bad, good], ELR, receiver=1)
    after = before.apply(decision.changes, before.version + 1)

    assert after.topic_configs("t") == {}
    assert after.broker_configs(1) == {"num.io.threads": "9"}


@pytest.mark.parametrize(
    ("before", "operation", "value", "after"),
    [
        (None, APPEND, "compact", "delete,compact"),
        ("compact", APPEND, "compact", "compact"),
        ("compact,delete", SUBTRACT, "compact", "delete"),
        ("compact", SUBTRACT, "delete", "compact"),
        ("compact", SUBTRACT, "compact", ""),
    ],
)
def test_lists_are_edited_item_by_item(before: str | None, operation: int, value: str, after: str) -> None:
    """An unset list starts from its default; the last item leaves an empty value, not the default."""
    given = start() if before is None else start(cleanup_policy=before)

    code, message, image_ = alter(given, ("cleanup.policy", operation, value))

    assert (code, message) == (0, None)
    assert image_.topic_configs("t") == {"cleanup.policy": after}


@pytest.mark.parametrize("operation", [SET, APPEND])
@pytest.mark.parametrize("value", [",0:1", "0:1,", " 0:1 , ", "0:1,,", ",,0:1"])
def test_t12_empty_items_of_throttle_lists_are_not_stored(operation: int, value: str) -> None:
    """Kafka stores them, and its brokers then throttle nothing."""
    name = "leader.replication.throttled.replicas"

    assert alter(start(), (name, operation, value))[2].topic_configs("t") == {name: "0:1"}


def test_t39_throttle_rates_of_other_known_brokers_are_accepted() -> None:
    """They may be down; nothing else of them is, nor all of their configurations at once."""
    rate, name = ("leader.replication.throttled.rate", SET, "5"), "2"
    accepted = alter(start(), rate, kind=BROKER, name=name)

    assert (accepted[0], accepted[2].broker_configs(2)) == (0, {"leader.replication.throttled.rate": "5"})
    assert alter(start(), rate, ("num.io.threads", SET, "8"), kind=BROKER, name=name)[0] == 42
    assert alter(start(), rate, kind=BROKER, name=name, replace=True)[0] == 42
    assert alter(start(), rate, kind=BROKER, name="99")[0] == 42


def test_append_to_everything_is_refused_and_subtract_does_nothing() -> None:
    """The list of throttled replicas is `*` or items, not both."""
    name = "leader.replication.throttled.replicas"
    given = start(leader_replication_throttled_replicas="*")

    appended = alter(given, (name, APPEND, "0:1"))
    subtracted = alter(given, (name, SUBTRACT, "0:1"))

    assert appended[0] == 40
    assert appended[1].startswith("Invalid value [*, 0:1] for configuration")
    assert subtracted[2].topic_configs("t") == {name: "*"}


@pytest.mark.parametrize("operation", [SET, APPEND, SUBTRACT])
def test_throttle_list_longer_than_brokers_read_at_once_is_refused(operation: int) -> None:
    """Each broker would read it in one go, and hold everybody; `*` says the same of a large topic."""
    name, text = "leader.replication.throttled.replicas", ",".join(["1234:5"] * 100_000)
    code, message, _ = alter(start(), (name, operation, text))

    assert code == 40
    assert message == (
        f"{name} would have 699999 characters, and may have 98304: throttle all replicas of the topic with '*', or"
        " fewer of them at a time"
    )


def test_throttle_list_that_becomes_too_long_is_refused() -> None:
    """However short each of the parts is that are appended."""
    name = "follower.replication.throttled.replicas"
    given = start(follower_replication_throttled_replicas=",".join(f"{number}:1" for number in range(8_000)))
    more = [f"{number}:2" for number in range(8_000)]

    assert alter(given, (name, APPEND, ",".join(more)))[0] == 40
    assert alter(given, (name, APPEND, ",".join(more[:4_000])))[0] == 0


def test_long_lists_are_edited_in_a_time_proportional_to_their_length() -> None:
    """Looking for each of ten thousand items in ten thousand takes seconds; the order, and repetitions, stay."""
    name = "leader.replication.throttled.replicas"
    items = [f"{number}:1" for number in range(6_000)]
    given = start(leader_replication_throttled_replicas=",".join(["9:9", *items, "9:9"]))
    began_s = time.process_time()
    appended = alter(given, (name, APPEND, ",".join(f"{number}:2" for number in range(6_000))))[2]
    reduced = alter(appended, (name, SUBTRACT, ",".join(["9:9", *reversed(items)])))[2]
    took_s = time.process_time() - began_s

    assert reduced.topic_configs("t")[name].split(",")[:3] == ["9:9", "0:2", "1:2"]
    assert len(reduced.topic_configs("t")[name].split(",")) == 6_001
    assert took_s < 0.4, f"{took_s} s of processor time"


def test_alter_configs_replaces_everything() -> None:
    """Keys that the request does not name lose their values."""
    _, _, after = alter(start(retention_ms="5", segment_ms="7"), ("segment.ms", SET, "8"), replace=True)

    assert after.topic_configs("t") == {"segment.ms": "8"}


def test_lower_minimum_ends_eligibility() -> None:
    """ISR [1,2] of three with min ISR 3 and ELR [3]: with a minimum of 2 no replica needs to be eligible."""
    before = image(partition(isr=(1, 2), elr=(3,)), configs={"min.insync.replicas": "3"})

    _, _, after = alter(before, ("min.insync.replicas", SET, "2"))

    assert after.topics["t"].partitions[0].elr == ()
