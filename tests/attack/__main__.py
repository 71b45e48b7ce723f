"""Attack a cluster of three brokers in every way of the catalogue, and judge what a well-behaved client felt.

    python -m tests.attack                          every case, and two minutes of rest: at most eight minutes
    python -m tests.attack --case idle --rest 0     one of them; --case may be repeated, and ends of names are enough
    python -m tests.attack --list                   what there is

The brokers' `queued.max.request.bytes` is 150 MB: with the default, a quarter of the machine's memory, they may take
more than the limit of this script.

The exit code is 1 if a limit was broken, or if there was no time for a case. All traffic stays on 127.0.0.1.
"""

import argparse
import fnmatch
import sys
import time
from collections.abc import Sequence

from tests.attack.catalogue import CASES
from tests.attack.ground import BUDGET_BYTES
from tests.attack.run import Run
from tests.attack.verdict import HEADER, MB, Limits
from tests.saying import say

# To read everything back, and to end.
END_S = 15.0
TRACEBACKS_MAX = 10


def main() -> int:
    """Run, and return 0 when every limit was kept."""
    parser = argparse.ArgumentParser(prog="python -m tests.attack", description=__doc__.split("\n")[0])
    parser.add_argument("--case", action="append", metavar="NAME", help="only this one, or a pattern; repeatable")
    parser.add_argument("--rest", type=float, default=120.0, metavar="S", help="leave the brokers alone at the end")
    parser.add_argument("--minutes", type=float, default=8.0, help="for everything (default: 8)")
    parser.add_argument("--notes", action="store_true", help="print what came of each attack")
    parser.add_argument("--list", action="store_true", help="print the cases")
    options = parser.parse_args()
    cases = [
        case for case in CASES if not options.case or any(fnmatch.fnmatch(case.name, each) for each in options.case)
    ]
    if options.list or not cases:
        say("\n".join(f"{case.name:<34}{case.sends}" for case in cases or CASES))
        return 0 if cases else 2
    until_s = time.monotonic() + 60 * options.minutes - options.rest - END_S
    run = Run(Limits(), say, short=False)
    say(f"Each broker holds at most {BUDGET_BYTES / MB:.0f} MB for clients (queued.max.request.bytes).")
    say(HEADER)
    try:
        for case in cases:
            if time.monotonic() > until_s:
                run.result.skipped[case.name] = "there was no time left"
                continue
            run.play(case)
            if options.notes and run.result.figures:
                say(f"    {run.result.figures[-1].note}")
        if options.rest:
            run.rest(options.rest)
        run.finish()
        run.judge_throughout()
    finally:
        run.close()
    return report(run, len(cases))


def distinct(tracebacks: Sequence[str]) -> list[str]:
    """Return one of those that end alike, without the lines of the log behind them."""
    by_end: dict[str, str] = {}
    for each in tracebacks:
        lines = each.splitlines()
        # The name of the log, what failed, the word Traceback; then what is indented; then the exception.
        end = next(
            (index for index, line in enumerate(lines) if index > 2 and not line.startswith(" ")), len(lines) - 1
        )
        by_end.setdefault("".join(lines[end - 2 : end]), "\n".join(lines[: end + 1]))
    return list(by_end.values())


def report(run: Run, planned: int) -> int:
    """Print the sum, and return the exit code."""
    result = run.result
    for traceback in distinct(result.tracebacks)[:TRACEBACKS_MAX]:
        say(f"\n{traceback}")
    for name, reason in result.skipped.items():
        say(f"skipped {name}: {reason}")
    say(f"{planned - len(result.skipped)} of {planned} cases played, {len(result.broken)} broke a limit")
    out_of_time = any("time" in reason for reason in result.skipped.values())
    return 1 if result.broken or out_of_time else 0


if __name__ == "__main__":
    sys.exit(main())
