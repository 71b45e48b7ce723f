"""Fault rules: what they select, when they strike, and why some are refused."""

from collections.abc import Sequence
from typing import Any

import pytest

from syncline.model.ids import TopicPartition
from syncline.node.control.verbs import ControlRefused
from syncline.node.faults.rules import CLEARED, SPENT, Rule, Trigger
from syncline.wire.api import ApiKey

ORDERS_3 = TopicPartition("orders", 3)


def rule(kind: str = "disk-fail", **fields: Any) -> Rule:
    """Return a rule."""
    return Rule({"id": "f1", "kind": kind, **fields})


def pattern(text: str, count: int) -> str:
    """Return which of `count` operations a trigger picks, as a row of x and dots."""
    trigger = Trigger(text)
    return "".join("x" if trigger.fires() else "." for _ in range(count))


@pytest.mark.parametrize(
    ("text", "picked"),
    [
        ("always", "xxxxxx"),
        ("once", "x....."),
        ("nth=3", "..x..."),
        ("times=2", "xx...."),
        ("every=2", ".x.x.x"),
        ("probability=0,seed=1", "......"),
        ("probability=1,seed=1", "xxxxxx"),
    ],
)
def test_trigger_picks_among_what_is_selected(text: str, picked: str) -> None:
    """Each trigger strikes exactly the operations that its name promises."""
    assert pattern(text, 6) == picked


def test_trigger_with_a_seed_picks_the_same_again() -> None:
    """The seed alone decides which operations are struck; another seed strikes others; the share is about right."""
    first = pattern("probability=0.3,seed=7", 1_000)

    assert pattern("probability=0.3,seed=7", 1_000) == first
    assert pattern("probability=0.3,seed=8", 1_000) != first
    assert 240 < first.count("x") < 360


@pytest.mark.parametrize("text", ["once", "nth=2", "times=2"])
def test_trigger_counts_nothing_more_when_it_is_spent(text: str) -> None:
    """The rule does not count operations after its last strike."""
    trigger = Trigger(text)
    for _ in range(10):
        trigger.fires()

    assert trigger.is_spent
    assert trigger.seen == (1 if text == "once" else 2)
    assert trigger.hits == (2 if text == "times=2" else 1)


@pytest.mark.parametrize("text", ["always", "every=2", "probability=0.5,seed=1"])
def test_trigger_is_never_spent_when_it_may_fire_again(text: str) -> None:
    """Such a rule ends with its time, or when it is cleared."""
    trigger = Trigger(text)
    for _ in range(100):
        trigger.fires()

    assert not trigger.is_spent
    assert trigger.seen == 100


@pytest.mark.parametrize(
    "text", ["", "never", "nth", "nth=0", "nth=x", "times=-1", "probability=2,seed=1", "probability=0.5", "every=1.5"]
)
def test_trigger_is_refused_when_it_makes_no_sense(text: str) -> None:
    """The message lists the known values."""
    with pytest.raises(ControlRefused, match="a trigger must be always, once, nth=N"):
        Trigger(text)


@pytest.mark.parametrize(
    ("fields", "partition", "direction", "expected"),
    [
        ({}, ORDERS_3, "read", True),
        ({}, None, "write", True),
        ({"directions": ["read"]}, ORDERS_3, "write", False),
        ({}, ORDERS_3, "miss", False),
        ({"directions": ["miss"]}, ORDERS_3, "miss", True),
        ({"directions": ["miss"]}, ORDERS_3, "read", False),
        ({"topic": "orders"}, ORDERS_3, "sync", True),
        ({"topic": "orders"}, None, "sync", False),
        ({"topic": "orders", "partition": 3}, ORDERS_3, "read", True),
        ({"topic": "orders", "partition": 2}, ORDERS_3, "read", False),
        ({"topic": "other"}, ORDERS_3, "read", False),
    ],
)
def test_disk_rule_selects_files_by_partition_and_direction(
    fields: dict[str, Any], partition: TopicPartition | None, direction: str, expected: bool
) -> None:
    """Without a topic the rule selects everything, the broker's own files included."""
    assert rule(**fields).selects_file(partition, direction) is expected


@pytest.mark.parametrize(
    ("fields", "key", "listener", "client", "expected"),
    [
        ({}, ApiKey.FETCH, "client", "any", True),
        ({}, ApiKey.FETCH, "internal", "broker-1-fetcher", False),
        ({}, ApiKey.ALTER_PARTITION, "internal", "broker-1", False),
        ({}, ApiKey.CONTROL, "internal", "control", False),
        ({"apis": ["fetch"]}, ApiKey.PRODUCE, "client", "any", False),
        ({"apis": ["fetch"], "listener": "internal"}, ApiKey.FETCH, "internal", "broker-1-fetcher", True),
        ({"apis": ["fetch"], "listener": "internal"}, ApiKey.FETCH, "client", "any", False),
        ({"apis": ["alter-partition"]}, ApiKey.ALTER_PARTITION, "internal", "broker-1", True),
        ({"apis": ["56"]}, ApiKey.ALTER_PARTITION, "internal", "broker-1", True),
        ({"client_id": "billing-*"}, ApiKey.PRODUCE, "client", "billing-7", True),
        ({"client_id": "billing-*"}, ApiKey.PRODUCE, "client", None, False),
        ({"topic": "orders"}, ApiKey.PRODUCE, "client", "any", True),
        ({"topic": "orders", "partition": 3}, ApiKey.PRODUCE, "client", "any", True),
        ({"topic": "orders", "partition": 4}, ApiKey.PRODUCE, "client", "any", False),
        ({"topic": "other"}, ApiKey.PRODUCE, "client", "any", False),
    ],
)
def test_request_rule_selects_by_key_listener_client_and_partition(
    fields: dict[str, Any], key: ApiKey, listener: str, client: str | None, expected: bool
) -> None:
    """All selectors must match; requests between brokers are selected by their name alone."""
    named: Sequence[tuple[str, int | None]] = [("orders", 3)]
    assert rule("api-disconnect", **fields).selects_request(key, listener, client, lambda: named) is expected


def test_request_rule_looks_into_requests_only_when_it_has_to() -> None:
    """Decoding a request costs time; neither a rule without a topic nor one for another key does it."""

    def refuse() -> Sequence[tuple[str, int | None]]:
        raise AssertionError("nobody needs to know")

    assert rule("api-disconnect").selects_request(ApiKey.FETCH, "client", None, refuse)
    assert not rule("api-disconnect", apis=["PRODUCE"], topic="t").selects_request(ApiKey.FETCH, "client", None, refuse)


def test_rule_strikes_no_more_when_it_is_over() -> None:
    """A finished rule counts nothing and releases held operations, unless only its trigger is spent."""
    over = rule("disk-slow", delay_ms=1)
    assert over.strikes()
    over.over = SPENT
    assert not over.strikes()
    assert not over.is_lifted
    over.over = CLEARED
    assert over.is_lifted
    assert over.trigger.hits == 1


def test_rule_that_sticks_is_not_spent_by_its_trigger() -> None:
    """An operation that it struck stays stuck until the fault is cleared."""
    stuck = rule("disk-stuck", directions=["read"], trigger="once")
    slow = rule("disk-slow", delay_ms=1, trigger="once")
    assert stuck.strikes()
    assert slow.strikes()
    assert (stuck.is_spent, slow.is_spent) == (False, True)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"kind": "disk-odd"}, "'kind' must be one of disk-slow"),
        ({"kind": "disk-slow"}, "'delay_ms' must be a number from 1 to 600000, not None"),
        ({"kind": "disk-slow", "delay_ms": 0}, "'delay_ms' must be a number from 1"),
        ({"kind": "disk-slow", "delay_ms": True}, "'delay_ms' must be a number"),
        ({"kind": "disk-fail", "delay_ms": 3}, "faults of kind disk-fail do not take 'delay_ms'"),
        ({"kind": "disk-fail", "errno": "ENOPE"}, "'errno' must be one of EIO"),
        ({"kind": "disk-fail", "directions": ["up"]}, "'directions' must be a list of read, write, sync, miss"),
        ({"kind": "disk-fail", "directions": "read"}, "'directions' must be a list"),
        ({"kind": "disk-fail", "partition": 3}, "a partition is only selected together with its topic"),
        ({"kind": "disk-fail", "topic": "t", "partition": -1}, "'partition' must be a number"),
        ({"kind": "disk-stuck", "directions": ["write"]}, "limit its time with --for"),
        ({"kind": "disk-stuck"}, "limit its time with --for"),
        ({"kind": "link-cut"}, r"'links' must be a list of \[from, to\] pairs"),
        ({"kind": "link-cut", "links": [[1, 1]]}, "different brokers"),
        ({"kind": "link-cut", "links": [["1", 2]]}, "different brokers"),
        ({"kind": "link-cut", "links": ["12"]}, "different brokers"),
        ({"kind": "link-cut", "links": [[-1, 2]]}, "different brokers"),
        ({"kind": "link-cut", "links": [[float("inf"), 2]]}, "different brokers"),
        ({"kind": "disk-fail", "topic": "t" * 1_001}, "'topic' can have at most 1000 characters, not 1001"),
        ({"kind": "disk-fail", "trigger": "nth=" + "9" * 500}, "a trigger must be always, once"),
        ({"kind": "link-cut", "links": [[1, 2]], "trigger": "once"}, "faults of kind link-cut do not take 'trigger'"),
        ({"kind": "link-delay", "links": [[1, 2]]}, "'delay_ms'"),
        ({"kind": "api-error", "apis": ["PRODUCE"]}, "'error' must be a Kafka error code"),
        ({"kind": "api-error", "apis": ["PRODUCE"], "error": "NONE"}, "'error' must be a Kafka error code"),
        ({"kind": "api-error", "error": "NOT_CONTROLLER"}, "'apis' must be a list of requests"),
        ({"kind": "api-error", "apis": ["POST"], "error": "3"}, "there is no request 'POST'"),
        ({"kind": "api-disconnect", "apis": ["CONTROL"]}, "there is no request 'CONTROL'"),
        ({"kind": "api-disconnect", "apis": "FETCH"}, "'apis' must be a list"),
        ({"kind": "api-disconnect", "listener": "both"}, "'listener' must be one of client, internal"),
        ({"kind": "api-disconnect", "client_id": 7}, "'client_id' must be text"),
        ({"kind": "api-throttle"}, "'delay_ms'"),
        ({"kind": "disk-fail", "duration_ms": 0}, "'duration_ms' must be a number from 1"),
        ({"kind": "disk-fail", "color": "red"}, "do not take 'color'"),
    ],
)
def test_rule_is_refused_in_a_sentence_when_it_makes_no_sense(fields: dict[str, Any], sentence: str) -> None:
    """The message names the mistake and the valid values."""
    with pytest.raises(ControlRefused, match=sentence):
        Rule({"id": "f1", **fields})


def test_rule_describes_itself_with_its_counters() -> None:
    """`fault list` shows the selectors that are set, counters, and the remaining time."""
    delayed = rule("api-throttle", apis=["PRODUCE"], delay_ms=20, client_id="a*", duration_ms=500)
    delayed.until_ms = 1_500
    delayed.strikes()

    assert delayed.describe(1_100) == {
        "id": "f1",
        "kind": "api-throttle",
        "state": "active",
        "seen": 1,
        "hits": 1,
        "trigger": "always",
        "left_ms": 400,
        "client_id": "a*",
        "delay_ms": 20,
        "apis": ["PRODUCE"],
        "listener": "client",
    }


@pytest.mark.parametrize(
    ("kind", "fields", "target"),
    [
        ("disk-fail", {"topic": "orders", "partition": 3}, "orders-3"),
        ("disk-fail", {"topic": "orders"}, "broker-2"),
        ("api-disconnect", {"topic": "orders", "partition": 3}, "broker-2"),
        ("link-cut-one-way", {"links": [[2, 3]]}, "broker-2>broker-3"),
        ("link-cut", {"links": [[2, 3], [3, 2]]}, "broker-2>broker-3,broker-3>broker-2"),
    ],
)
def test_rule_names_its_target_as_the_journal_does(kind: str, fields: dict[str, Any], target: str) -> None:
    """A partition, a broker, or the directions of a link."""
    assert rule(kind, **fields).target(2) == target
