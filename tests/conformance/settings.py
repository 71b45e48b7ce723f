"""Broker configs of the clusters that are compared; both start with exactly these.

The offsets topic is replicated as in production; rebalances begin at once, so that sequences do not wait; leadership
stays where it was put; the largest frame is small enough to be exceeded by a test.
"""

CONFIGS = {
    "replica.lag.time.max.ms": "3000",
    "auto.leader.rebalance.enable": "false",
    "socket.request.max.bytes": "4194304",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.replication.factor": "3",
}
BROKER_COUNT = 3
