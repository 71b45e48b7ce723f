"""The attacker process: it takes the names of cases on its input, one line each, and plays them.

For each case it builds all bytes, says that it is ready, waits for the word, plays, and says what came of it: the
processor time of building must not be counted as the brokers'. It runs at the lowest priority, because it is there
to ask for work, not to take the processor from those who do it.

    in      {"case": name, "short": bool, "scene": ...}     then     {"go": true}
    out     {"ready": bytes}                                then     {"outcome": ..., "cpu_s": seconds}
"""

import gc
import json
import os
import sys
import time
from dataclasses import asdict

from tests.attack.case import Size
from tests.attack.catalogue import CASES, WARM_UP
from tests.attack.playing import Player
from tests.attack.scene import Scene
from tests.attack.stream import Outcome, Stream
from tests.saying import say

NICE = 15


def play(streams: list[Stream], limit_s: float) -> Outcome:
    """Play streams one after the other, all of them within the limit."""
    whole = Outcome()
    until_s = time.monotonic() + limit_s
    for stream in streams:
        whole.add(Player(stream, max(0.5, until_s - time.monotonic())).play())
    return whole


def main() -> None:
    """Serve until the input ends."""
    os.nice(NICE)
    cases = {case.name: case for case in (WARM_UP, *CASES)}
    for line in sys.stdin:
        order = json.loads(line)
        case = cases[order["case"]]
        size = case.short if order["short"] else case.whole
        assert isinstance(size, Size), f"{case.name} has no short form"
        streams = list(case.play(Scene.decoded(order["scene"]), size))
        gc.collect()
        say(json.dumps({"ready": sum(len(data) for stream in streams for data in stream.data)}))
        if not sys.stdin.readline():
            return
        cpu_s = time.process_time()
        outcome = play(streams, size.limit_s)
        del streams
        say(json.dumps({"outcome": asdict(outcome), "cpu_s": time.process_time() - cpu_s}))


if __name__ == "__main__":
    main()
