"""Plays random sequences of some seeds on Apache Kafka and on Syncline; fails if any is answered differently.

    python -m tests.conformance.random_sequences --seeds 0..99
    python -m tests.conformance.random_sequences --seeds 17 --only data

A sequence that fails is shortened, as long as it goes on failing, and shown with its seed, its steps and both answers.
"""

import argparse
import signal
import sys
import time
from itertools import groupby

from tests.conformance.random_sequences.catalogue import KINDS, WORLD_OF, generated
from tests.conformance.random_sequences.report import report
from tests.conformance.random_sequences.shrinking import shrunk
from tests.conformance.random_sequences.side_by_side import SideBySide, side_by_side
from tests.conformance.settings import STEADY


def main() -> int:
    """Return 0 if every sequence was answered alike."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0..99", help="first..last, or one")
    parser.add_argument("--only", choices=sorted(KINDS), help="one kind of sequences")
    parser.add_argument("--tries", type=int, default=80, help="how often a failing sequence is tried shorter")
    parser.add_argument("--kafka", help="host:port,... of an Apache Kafka that runs, instead of a fresh one")
    options = parser.parse_args()
    # Both clusters are stopped on the way out.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    first, _, last = options.seeds.partition("..")
    seeds = range(int(first), int(last or first) + 1)
    kinds = [options.only] if options.only else list(KINDS)
    began, failed, steps = time.monotonic(), [], 0
    for world, its_kinds in groupby(kinds, key=lambda kind: WORLD_OF.get(kind, STEADY)):
        with side_by_side(options.kafka, world) as clusters:
            for kind in its_kinds:
                for seed in seeds:
                    taken = _try(clusters, kind, seed, options.tries)
                    steps += abs(taken)
                    failed += [f"{kind} {seed}"] if taken < 0 else []
    seconds = time.monotonic() - began
    _say(f"{len(kinds) * len(seeds)} sequences, {steps} steps, {seconds:.0f} s; failed: {', '.join(failed) or 'none'}")
    return 1 if failed else 0


def _try(clusters: SideBySide, kind: str, seed: int, tries: int) -> int:
    """Return the number of steps of a sequence, negative if it failed."""
    outcome = clusters.play(generated(kind, seed))
    steps = len(outcome.kafka)
    if outcome.is_good:
        return steps
    short = shrunk(outcome.sequence, lambda each: not clusters.play(each).is_good, tries)
    again = clusters.play(short)
    # What fails only once may still be a fault: a race, of the brokers or of the sequence.
    _say(report(outcome if again.is_good else again))
    return -steps


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
