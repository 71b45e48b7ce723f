"""Inject incidents of fourteen causes into real brokers, ask `syncline why`, and compare with the truth.

    python -m tests.incidents                       10 of each cause, about 30 minutes
    python -m tests.incidents --each 2 --cause follower-paused --seed 7

Each incident has its own seed, printed with it; partition, role, moment and length come from it. What the processes
make of it differs from run to run, as it should. The misses are listed with what the evidence showed.
"""

import argparse
import random
import subprocess
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaException

from syncline.local.layout import LocalClusterError
from tests.incidents.causes import CAUSES, Truth
from tests.incidents.ground import Ground, ground
from tests.saying import say

GOAL_SHARE = 133 / 140
# A broker that was paused or cut off reports some time after it is back.
TELL_S = 2.5


@dataclass
class Outcome:
    """One incident and the explanation of it."""

    cause: str
    seed: int
    truth: Truth | None
    answer: dict[str, Any]
    took_s: float
    error: str = ""

    @property
    def is_named(self) -> bool:
        """Whether the true cause was named, with the broker that it befell and the direction of a cut."""
        truth, main = self.truth, self.answer.get("main")
        if truth is None or main is None or main["cause"] != truth.cause:
            return False
        if truth.lost:
            return bool(main["lost"] == truth.lost)
        return truth.cause.value.startswith(("network", "burst")) or bool(main["broker"] == truth.broker)


def main() -> int:
    """Run, and return 0 when enough causes were named."""
    parser = argparse.ArgumentParser(prog="python -m tests.incidents", description=__doc__.split("\n")[0])
    parser.add_argument("--each", type=int, default=10, help="how many incidents of each cause (default: 10)")
    parser.add_argument("--cause", action="append", choices=list(CAUSES), help="only this one; repeatable")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first incident")
    options = parser.parse_args()
    causes = options.cause or list(CAUSES)
    plan = [(cause, options.seed + number) for number in range(options.each) for cause in causes]
    outcomes: list[Outcome] = []
    with ground() as where:
        for number, (cause, seed) in enumerate(plan, 1):
            outcome = incident(where, cause, seed)
            outcomes.append(outcome)
            named = outcome.answer.get("cause") or "nothing"
            verdict = "named " if outcome.is_named else "MISSED"
            note = outcome.truth.note if outcome.truth else outcome.error
            at = outcome.truth.place if outcome.truth else ""
            say(f"{number:3}/{len(plan)} {verdict} {cause:24} seed {seed:4} {at} {note} -> {named}")
    return report(outcomes, causes)


def incident(where: Ground, cause: str, seed: int) -> Outcome:
    """Let one incident happen and ask why."""
    rng = random.Random(f"{cause} {seed}")
    began_s = time.monotonic()
    truth = None
    try:
        where.settle()
        time.sleep(rng.uniform(1, 2.5))
        since_ms = time.time_ns() // 1_000_000
        truth = CAUSES[cause](where, rng)
        where.settle()
        time.sleep(TELL_S)
        return Outcome(cause, seed, truth, where.why(truth.place, since_ms), time.monotonic() - began_s)
    except (AssertionError, LocalClusterError, KafkaException, OSError, subprocess.SubprocessError) as error:
        traceback.print_exc()
        return Outcome(cause, seed, truth, {}, time.monotonic() - began_s, repr(error))


def report(outcomes: Sequence[Outcome], causes: Sequence[str]) -> int:
    """Print the table and the misses."""
    say(f"\n{'cause':26}{'named':>8}{'of':>5}   otherwise")
    for cause in causes:
        mine = [each for each in outcomes if each.cause == cause]
        wrong = [str(each.answer.get("cause") or each.error or "nothing") for each in mine if not each.is_named]
        say(f"{cause:26}{len(mine) - len(wrong):>8}{len(mine):>5}   {', '.join(wrong)}")
    good = sum(each.is_named for each in outcomes)
    say(f"{'all':26}{good:>8}{len(outcomes):>5}")
    for each in outcomes:
        if not each.is_named:
            say(f"\nMISSED {each.cause}, seed {each.seed}: {each.truth or each.error}")
            for paragraph in each.answer.get("words", ()):
                say(f"  {paragraph}")
    return 0 if good >= GOAL_SHARE * len(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
