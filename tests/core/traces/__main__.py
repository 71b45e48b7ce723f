"""Play the traces: `--write` writes what comes of them now, otherwise differences are printed."""

import argparse
import difflib
import sys

from .script import files, play


def main() -> int:
    """Return how many files differ, or none after writing."""
    parser = argparse.ArgumentParser(prog="python -m tests.core.traces", description=__doc__)
    parser.add_argument(
        "--write", action="store_true", help="write the files anew; review the difference before you commit"
    )
    is_writing = parser.parse_args().write
    different = 0
    for path in files():
        before = path.read_text()
        after = play(before)
        if before == after:
            continue
        different += 1
        sys.stdout.writelines(difflib.unified_diff(before.splitlines(True), after.splitlines(True), path.name, "now"))
        if is_writing:
            path.write_text(after)
    return 0 if is_writing else different


if __name__ == "__main__":
    sys.exit(main())
