"""The command of the simulated world: `python -m syncline.virtual run|replay`."""

import argparse
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from syncline.virtual.simulation import FAILURES_SHOWN, RunResult, RunSettings, run_seed


def _seeds(text: str) -> list[int]:
    """Return the seeds that "7", "0..99" or "7,20..25" stands for."""
    seeds: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("..")
        seeds += range(int(first), int(last or first) + 1)
    return seeds


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m syncline.virtual",
        description=(
            "Run three unmodified brokers and unmodified clients in virtual time, with seeded faults, "
            "and check that nothing acknowledged is lost."
        ),
    )
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run many seeds")
    run.add_argument("--seeds", type=_seeds, default=_seeds("0..99"), help="seeds and ranges: 0..99, or 7,20..25")
    run.add_argument("--jobs", type=int, default=1, help="number of processes that run seeds")
    replay = commands.add_parser("replay", help="run one seed again and print everything about it")
    replay.add_argument("--seed", type=int, required=True)
    replay.add_argument("--trace", type=Path, help="write every event to this file")
    for command in (run, replay):
        command.add_argument("--seconds", type=int, default=30, help="simulated seconds (default 30)")
        command.add_argument("--no-faults", action="store_true", help="run without faults")
        command.add_argument(
            "--lasting", action="store_true", help="longer faults; partitions must accept records meanwhile (L9)"
        )
        command.add_argument("--digests", action="store_true", help="print the hash of each seed's trace")
    return parser


def _settings(arguments: argparse.Namespace) -> RunSettings:
    return RunSettings(
        seconds=arguments.seconds, with_faults=not arguments.no_faults, with_lasting_faults=arguments.lasting
    )


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _results(arguments: argparse.Namespace, settings: RunSettings) -> Iterator[RunResult]:
    if arguments.jobs <= 1:
        yield from (run_seed(seed, settings) for seed in arguments.seeds)
        return
    context = multiprocessing.get_context("spawn")
    with context.Pool(arguments.jobs) as pool:
        # A spawned process does not import this module again, so the function it calls is in another one.
        yield from pool.imap_unordered(partial(run_seed, settings=settings), arguments.seeds)


def _replay_command(result: RunResult, settings: RunSettings) -> str:
    options = "" if settings.with_faults else " --no-faults"
    options += " --lasting" if settings.with_lasting_faults else ""
    return f"python -m syncline.virtual replay --seed {result.seed} --seconds {settings.seconds}{options}"


def _run(arguments: argparse.Namespace) -> int:
    settings = _settings(arguments)
    began = time.monotonic()
    failed: list[RunResult] = []
    counts: Counter[str] = Counter()
    simulated_s, busy_s, total = 0.0, 0.0, len(arguments.seeds)
    for done, result in enumerate(_results(arguments, settings), start=1):
        simulated_s += result.simulated_s
        busy_s += result.wall_s
        counts.update(result.counts)
        counts.update({f"fault {kind}": count for kind, count in result.faults.items()})
        counts.update(
            {"acknowledged": result.acknowledged, "in doubt": result.in_doubt, "duplicates": result.duplicates}
        )
        if arguments.digests:
            _say(f"{result.seed} {result.digest}")
        if not result.is_good:
            failed.append(result)
            _say(f"seed {result.seed} FAILED: {result.failures[0]}\n  {_replay_command(result, settings)}")
        if sys.stderr.isatty() or done % 10 == 0 or done == total:
            speed = simulated_s / busy_s if busy_s else 0.0
            end = "\r" if sys.stderr.isatty() and done < total else "\n"
            sys.stderr.write(f"{done}/{total} seeds, {len(failed)} failed, {speed:.0f} simulated s per s and core{end}")
            sys.stderr.flush()
    elapsed_s = time.monotonic() - began
    _say(f"{total - len(failed)} of {total} seeds passed: {simulated_s:.0f} simulated s in {elapsed_s:.0f} s")
    _say("  " + ", ".join(f"{name} {count}" for name, count in sorted(counts.items())))
    return 1 if failed else 0


def _replay(arguments: argparse.Namespace) -> int:
    settings = _settings(arguments)
    if arguments.trace is None:
        result = run_seed(arguments.seed, settings)
    else:
        with arguments.trace.open("w") as lines:
            result = run_seed(arguments.seed, settings, lines)
    for fault in result.plan:
        _say(f"planned: {fault}")
    _say(f"seed {result.seed}: trace {result.digest}, {result.simulated_s:.1f} simulated s in {result.wall_s:.2f} s")
    _say(f"  {result.callbacks} callbacks, acknowledged {result.acknowledged}, in doubt {result.in_doubt}")
    _say("  " + ", ".join(f"{name} {count}" for name, count in result.counts.items()))
    for failure in result.failures[:FAILURES_SHOWN]:
        _say(f"FAILED: {failure}")
    if len(result.failures) > FAILURES_SHOWN:
        _say(f"... and {len(result.failures) - FAILURES_SHOWN} more")
    return 0 if result.is_good else 1


def main() -> int:
    """Return the exit status of the command."""
    arguments = _arguments().parse_args()
    return _run(arguments) if arguments.command == "run" else _replay(arguments)


if __name__ == "__main__":
    sys.exit(main())
