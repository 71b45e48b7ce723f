"""Named sets of broker configurations."""

from collections.abc import Mapping
from typing import Final

# What the test suites of Kafka clients expect, where it is not the default: groups without initial delay, small
# time-outs. A default has no place here: it would be shown as set, on every topic that inherits it.
TEST: Final[Mapping[str, str]] = {
    "num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
    # Suites join with sessions of a second, and expect shorter ones to be refused.
    "group.min.session.timeout.ms": "1000",
    "replica.lag.time.max.ms": "1000",
}

PROFILES: Final[Mapping[str, Mapping[str, str]]] = {"test": TEST}
