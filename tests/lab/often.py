"""Every scenario in every mode, many times: `python -m tests.lab.often --times 20`.

A history that comes out as it must only most of the time proves nothing. Prints one line per scenario and mode with
how often it came out right and how long it took, and the whole story of each run that did not; ends with 1 then.
"""

import argparse
import sys
import time
from pathlib import Path

from syncline.lab.run import NAMES, run, scenario_of
from tests.saying import say


def main() -> int:
    """Run the scenarios, and print the results."""
    parser = argparse.ArgumentParser(description="Run every lab scenario in every mode, many times.")
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--scenario", choices=list(NAMES), action="append", help="only these")
    parser.add_argument("--logs", type=Path, help="keep the brokers' logs of bad runs here")
    arguments = parser.parse_args()
    failures = runs = 0
    for name in arguments.scenario or NAMES:
        scenario = scenario_of(name)
        for mode in scenario.modes:
            good, slowest_s, began_s = 0, 0.0, time.monotonic()
            for number in range(arguments.times):
                said: list[str] = []
                logs = arguments.logs / f"{name}-{mode}-{number + 1}" if arguments.logs else None
                story = run(scenario, mode, said.append, logs_to=logs)
                good += story.outcome.is_expected
                slowest_s = max(slowest_s, story.lasted_s)
                if not story.outcome.is_expected:
                    say("\n".join((f"--- {name}, {mode}, run {number + 1}:", *said, "---")))
            took_s = time.monotonic() - began_s
            say(
                f"{name:<22} {mode:<18} {good:>3} of {arguments.times} as expected"
                f"   mean {took_s / arguments.times:5.2f} s, slowest {slowest_s:5.2f} s"
            )
            runs += arguments.times
            failures += arguments.times - good
    say(f"{runs - failures} of {runs} runs as expected")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
