"""Named streams of random numbers, all derived from one seed.

One stream per purpose and per link, never one for all: when a fault is removed
from a plan, everything else must still see the same numbers, or no failure could
be reduced to a smaller one.
"""

import hashlib
import random


def stream(seed: int, *names: object) -> random.Random:
    """Return the stream called `names` of the run `seed`; the same in every process and on every machine."""
    text = "/".join([str(seed), *(str(name) for name in names)])
    return random.Random(int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "big"))  # noqa: S311 - not secrets
