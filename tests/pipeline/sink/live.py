"""The sink's tests against Apache Kafka, where they take the way of transactions: `make spark-sink-live`.

Needs Java and Maven, or a directory with Kafka's jars in `KAFKA_LIB`.
"""

import os
import subprocess
import sys
from pathlib import Path

from tests.conformance.apache_kafka import running
from tests.conformance.settings import World

WORLD = World(
    1,
    {
        "offsets.topic.num.partitions": "5",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.num.partitions": "5",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
    },
)


def main() -> int:
    """Start a node, run the tests beside this file with `ARGS`, and return their exit code."""
    with running(WORLD) as cluster:
        bootstrap = ",".join(f"{host}:{port}" for host, port in cluster.bootstrap)
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(Path(__file__).parent), *sys.argv[1:]]
        return subprocess.run(command, env={**os.environ, "SYNCLINE_TEST_BOOTSTRAP": bootstrap}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
