"""Recording again: starts Apache Kafka, plays every sequence, shows what changed.

    python -m tests.conformance.live            show what changed against the recordings
    python -m tests.conformance.live --write    and replace them

With `--rounds 2` each round has a fresh cluster, and answers that differ between rounds are shown: they are not facts.
"""

import argparse
import socket
import sys
import time

from tests.conformance import apache_kafka
from tests.conformance.catalogue import collect
from tests.conformance.compare import differences
from tests.conformance.record import Recording, read, ready_cluster, record, write
from tests.conformance.settings import WORLDS
from tests.conformance.steps import Sequence

START_S = 60.0


def main() -> int:
    """Return 0 if nothing changed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="replace the recordings")
    parser.add_argument("--rounds", type=int, default=1, help="how many fresh clusters are asked")
    parser.add_argument("only", nargs="*", help="beginnings of the names of sequences; all if none is given")
    options = parser.parse_args()
    sequences = [each for each in collect() if not options.only or each.name.startswith(tuple(options.only))]
    rounds = [ask_kafka(sequences) for _ in range(options.rounds)]
    changed = 0
    for other in rounds[1:]:
        changed += show("between rounds", rounds[0], other)
    changed += show(
        "against the recording", {name: steps for name, steps in read().items() if name in rounds[0]}, rounds[0]
    )
    if options.write:
        write({**(read() if options.only else {}), **rounds[0]})
    steps = sum(len(each) for each in rounds[0].values())
    sys.stdout.write(f"{len(rounds[0])} sequences, {steps} steps, {changed} changes\n")
    return 1 if changed else 0


def ask_kafka(sequences: list[Sequence]) -> Recording:
    """Return the recording of fresh clusters, one for each world that these sequences belong to."""
    recording: Recording = {}
    for name, world in WORLDS.items():
        own = [each for each in sequences if each.world == name]
        if not own:
            continue
        with apache_kafka.running(world) as kafka:
            deadline = time.monotonic() + START_S
            for host, port in kafka.bootstrap:
                wait_for_listener(host, port, deadline)
            cluster = ready_cluster(kafka.bootstrap, own, world=name)
            try:
                recording.update(record(cluster, own, name, kafka.stop))
            finally:
                cluster.close()
    return {each.name: recording[each.name] for each in sequences}


def wait_for_listener(host: str, port: int, deadline: float) -> None:
    """Return once a process listens there."""
    while True:
        try:
            socket.create_connection((host, port), timeout=1).close()
        except OSError:
            assert time.monotonic() < deadline, f"{host}:{port} does not listen"
            time.sleep(0.1)
        else:
            return


def show(what: str, before: Recording, after: Recording) -> int:
    """Write the differences and return how many there are."""
    count = 0
    for name in sorted(before.keys() | after.keys()):
        if name not in before or name not in after:
            sys.stdout.write(f"{what}: {name} is {'new' if name in after else 'gone'}\n")
            count += 1
            continue
        for difference in differences(name, before[name], after[name]):
            sys.stdout.write(f"{what}: {difference.sequence} step {difference.step}: {difference.path}: ")
            sys.stdout.write(f"{difference.kafka!r} -> {difference.syncline!r}\n")
            count += 1
    return count


if __name__ == "__main__":
    sys.exit(main())
