"""Named sets of broker configurations."""

from collections.abc import Mapping
from typing import Final

# What the test suites of Kafka clients expect: groups without initial delay, small time-outs, auto-created topics.
TEST: Final[Mapping[str, str]] = {
    "auto.create.topics.enable": "true",
    "num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "replica.lag.time.max.ms": "1000",
    "message.max.bytes": "1048588",
    "delete.topic.enable": "true",
}

PROFILES: Final[Mapping[str, Mapping[str, str]]] = {"test": TEST}
