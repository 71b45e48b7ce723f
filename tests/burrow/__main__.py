"""Five minutes of groups that keep up, are slow, stall, stop and rewind, judged by Burrow and by the brokers.

    python -m tests.burrow [--minutes 5] [--seed N] [--keep]

Two comparisons. Burrow's own inputs, from its log, put through our rules: each of its judgements must come out, at
every one of its evaluation times. And the brokers, who sample ends at other moments: `syncline lag` must say of each
group what Burrow says, whenever Burrow says the same two seconds before and after. Whether a lag fell between two
commits does depend on those moments, so of all answers one in twenty may be OK for one of them and WARN for the other.
"""

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from syncline.cli.lag.command import groups_of
from syncline.local.control import controls
from tests.burrow.groups import BEHAVIOURS, Ends, Group
from tests.burrow.replay import Replay
from tests.burrow.server import CACHE_S, INTERVALS, REFRESH_S, Burrow, now_s
from tests.cluster import LocalCluster, start_cluster
from tests.interop.toolchains import MissingError, burrow
from tests.process.load import create_topic
from tests.saying import say

TOPIC = "watched"
PARTITIONS = 2
POLL_S = 1.0
# Burrow's answer must be the same for so long before and after, so that ends sampled at other moments do not matter.
STEADY_S = 2.0
# Of the steady answers, those in which one says OK and the other WARN.
SAMPLED_SHARE_MAX = 0.05
BY_SAMPLES = frozenset({"OK", "WARN"})
# The same ends, as often as Burrow samples them, and as many of everything.
CONFIG = {"lag.refresh.interval.ms": str(REFRESH_S * 1_000), "lag.commit.intervals": str(INTERVALS)}
SHOWN = 10


class Poll(NamedTuple):
    """What both said of one group."""

    asked_s: float
    answered_s: float
    theirs: dict[str, Any]
    ours: str


def poll(cluster: LocalCluster, server: Burrow, groups: list[Group], polls: dict[str, list[Poll]]) -> None:
    """Ask both for all groups."""
    ours = {row["group"]: row["status"] for row in groups_of(controls(cluster.directory))["groups"]}
    for group in groups:
        asked_s = now_s()
        theirs = server.status(group.name)
        if theirs is not None and group.name in ours:
            polls[group.name].append(Poll(asked_s, now_s(), theirs, ours[group.name]))


def different(polls: list[Poll]) -> tuple[int, list[Poll]]:
    """Return how many polls were taken while Burrow's answer was steady, and those in which ours was another."""
    compared, found = 0, []
    for each in polls:
        around = [other for other in polls if abs(other.asked_s - each.asked_s) <= STEADY_S + POLL_S / 2]
        spans_s = (each.asked_s - around[0].asked_s, around[-1].asked_s - each.asked_s)
        if min(spans_s) < STEADY_S - POLL_S / 2 or len({other.theirs["status"] for other in around}) > 1:
            continue
        compared += 1
        if each.theirs["status"] != each.ours:
            found.append(each)
    return compared, found


def run(cluster: LocalCluster, program: str, directory: Path, *, seconds: float, seed: int) -> int:
    """Play and compare; return how many differences there are."""
    create_topic(cluster.bootstrap, TOPIC, PARTITIONS)
    ends = Ends(cluster.bootstrap, TOPIC, PARTITIONS, seed)
    rng = random.Random(seed)
    # Each behaviour comes first in one group, so that all are seen.
    groups = [
        Group(
            cluster.bootstrap, f"group-{number}", ends, TOPIC, [BEHAVIOURS[0], first, *rng.sample(BEHAVIOURS, 3)], seed
        )
        for number, first in enumerate(BEHAVIOURS)
    ]
    polls: dict[str, list[Poll]] = {group.name: [] for group in groups}
    ends.thread.start()
    server = Burrow(program, cluster.bootstrap, directory)
    try:
        for group in groups:
            group.thread.start()
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s:
            began_s = time.monotonic()
            poll(cluster, server, groups, polls)
            time.sleep(max(0.0, POLL_S - (time.monotonic() - began_s)))
    finally:
        for each in (*groups, ends):
            each.is_over.set()
        for each in (*groups, ends):
            if each.thread.ident is not None:
                each.thread.join(30)
        server.stop()
    replay = Replay()
    replay.read(server.lines())
    return compare(replay, groups, polls)


def compare(replay: Replay, groups: list[Group], polls: dict[str, list[Poll]]) -> int:
    """Print both comparisons; return how many differences there are."""
    evaluations = [each for each in replay.evaluations if each.group in polls]
    unequal = [each for each in evaluations if not each.is_equal]
    statuses = Counter(
        verdict.status.name for each in evaluations for verdict in (each.ours[-1].values() if each.ours else ())
    )
    say(f"  {len(evaluations)} evaluations of Burrow, ours differ in {len(unequal)}; partitions {dict(statuses)}")
    for each in unequal[:SHOWN]:
        say(f"  WRONG {each}")
    for text in replay.wrong_lags[:SHOWN]:
        say(f"  WRONG {text}")
    unexplained = [
        each
        for answers in polls.values()
        for each in answers
        if not replay.explains(each.theirs, each.asked_s, each.answered_s, CACHE_S)
    ]
    total = sum(map(len, polls.values()))
    say(f"  {total} answers of Burrow, partition by partition, ours differ in {len(unexplained)}")
    for each in unexplained[:SHOWN]:
        say(f"  WRONG {each}")
    steady, live, by_samples = 0, 0, 0
    for group in groups:
        compared, all_found = different(polls[group.name])
        found = [each for each in all_found if {each.theirs["status"], each.ours} != BY_SAMPLES]
        steady, live, by_samples = steady + compared, live + len(found), by_samples + len(all_found) - len(found)
        named = Counter(each.theirs["status"] for each in polls[group.name])
        say(f"  {group.name}: {compared} steady answers, brokers differ in {len(found)}; Burrow said {dict(named)}")
        for each in found[:3]:
            behaviour = [what for at_s, what in group.history if at_s <= each.asked_s][-1:]
            say(f"  WRONG at {each.asked_s:.1f} ({behaviour}): Burrow {each.theirs}, the brokers {each.ours}")
    say(f"  of {steady} steady answers {by_samples} are OK for one and WARN for the other, as ends were sampled")
    live += by_samples > SAMPLED_SHARE_MAX * steady
    few = len(evaluations) < 100 or len(statuses) < 4
    if few:
        say("  too little was seen to prove anything")
    return len(unequal) + len(replay.wrong_lags) + len(unexplained) + live + few


def main() -> int:
    """Run; return 0 if all agreed, or Burrow cannot be had here."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--keep", action="store_true", help="keep Burrow's log and the data directory")
    arguments = parser.parse_args()
    seed = arguments.seed if arguments.seed is not None else random.randrange(1 << 31)
    try:
        program = burrow()
    except MissingError as error:
        say(f"1 comparison SKIPPED: Burrow cannot be had here: {error}")
        return 0
    directory = Path(tempfile.mkdtemp(prefix="syncline-burrow-"))
    say(f"Burrow for {arguments.minutes:g} min, seed {seed}, in {directory}")
    cluster = start_cluster(3, CONFIG, directory=directory / "data")
    differences = -1
    try:
        differences = run(cluster, program, directory, seconds=60 * arguments.minutes, seed=seed)
    finally:
        cluster.stop()
    if differences or arguments.keep:
        say(f"the data is kept in {directory}")
    else:
        shutil.rmtree(directory, ignore_errors=True)
    say("they agreed" if not differences else f"FAILED: {differences} differences")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
