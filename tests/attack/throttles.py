"""Attacks by throttles: lists that name many replicas, and rates that change all the time."""

from collections.abc import Mapping, Sequence
from typing import Final

from syncline.model.topic_config import FOLLOWER_THROTTLED, LEADER_THROTTLED, LIST_CHARS_MAX
from syncline.wire.api import ApiKey
from tests.attack.case import Size
from tests.attack.frames import frame
from tests.attack.naming import BROKER_TYPE, TOPIC_TYPE, one_answer
from tests.attack.scene import TARGET, Scene
from tests.attack.stream import Stream

LISTS: Final = (LEADER_THROTTLED, FOLLOWER_THROTTLED)
RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
SET, DELETE, APPEND, SUBTRACT = range(4)


def _alteration(kind: int, name: str, values: Mapping[str, str | None], operation: int = SET) -> bytes:
    configs = [
        {"name": key, "config_operation": DELETE if value is None else operation, "value": value}
        for key, value in values.items()
    ]
    resource = {"resource_type": kind, "resource_name": name, "configs": configs}
    return frame(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, {"resources": [resource]})


def long_lists(scene: Scene, size: Size) -> Sequence[Stream]:
    """Lists that are too long, as long as they may be, appended to themselves, halved, all replicas, and none."""
    items = ",".join(f"{number}:{scene.controller}" for number in range(size.count))
    longest = items[:LIST_CHARS_MAX].rpartition(",")[0]
    half = longest[: len(longest) // 2].rpartition(",")[0]
    frames = [
        _alteration(TOPIC_TYPE, TARGET, dict.fromkeys(LISTS, items)),
        _alteration(TOPIC_TYPE, TARGET, dict.fromkeys(LISTS, longest)),
        _alteration(TOPIC_TYPE, TARGET, dict.fromkeys(LISTS, longest), APPEND),
        _alteration(TOPIC_TYPE, TARGET, dict.fromkeys(LISTS, half), SUBTRACT),
        _alteration(TOPIC_TYPE, TARGET, dict.fromkeys(LISTS, "*")),
        _alteration(TOPIC_TYPE, TARGET, dict.fromkeys(LISTS)),
    ]
    return [one_answer(scene.other_port, *frames)]


def long_numbers(scene: Scene, size: Size) -> Sequence[Stream]:
    """Lists that name partitions, brokers and blanks of thousands of characters: for this broker and for another."""
    digits, blanks = "9" * size.count, " " * size.count
    texts = [
        f"{digits}:{scene.controller}",
        f"{digits}:{scene.controller + 1}",
        f"0:{digits}",
        f"0:{'0' * size.count}{scene.controller}",
        f"{digits}:",
        f"0:1{blanks}1",
    ]
    return [
        one_answer(
            scene.other_port,
            *[_alteration(TOPIC_TYPE, TARGET, dict.fromkeys(LISTS, text)) for text in texts],
            *[_alteration(TOPIC_TYPE, TARGET, dict.fromkeys(LISTS, texts[0]), kind) for kind in (APPEND, SUBTRACT)],
            _alteration(TOPIC_TYPE, TARGET, {"cleanup.policy": f"delete{blanks}delete"}),
            _alteration(TOPIC_TYPE, TARGET, dict.fromkeys(LISTS)),
        )
    ]


def flapping_rates(scene: Scene, size: Size) -> Sequence[Stream]:
    """While all replicas of a topic are listed, each request sets other rates, for all brokers and for one."""
    names = ["", str(scene.controller)]
    frames = [
        _alteration(BROKER_TYPE, names[number % 2], dict.fromkeys(RATES, str(1 + number % 7)))
        for number in range(size.count)
    ]
    return [
        one_answer(scene.controller_port, _alteration(TOPIC_TYPE, TARGET, dict.fromkeys(LISTS, "*"))),
        one_answer(scene.controller_port, *frames),
        one_answer(
            scene.controller_port,
            *[_alteration(BROKER_TYPE, name, dict.fromkeys(RATES)) for name in names],
            _alteration(TOPIC_TYPE, TARGET, dict.fromkeys(LISTS)),
        ),
    ]
