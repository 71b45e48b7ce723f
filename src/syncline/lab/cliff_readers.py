"""Who writes and reads in `cache-cliff`: one writer, two readers at the tail, and one that reads a quarter as fast.

A round writes the same to each log, and each reader at the tail reads it at once. Their fetches are sent while the
late reader waits for its own, so that one reader gets what the others go without. Rounds follow each other without a
pause: every run reads the same at the same distance.

Units: bytes, milliseconds; an offset counts batches of one record.
"""

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple

from syncline.lab.client import Client, batch_of
from syncline.lab.cliff_facts import Round
from syncline.lab.cluster import LabCluster
from syncline.lab.errors import LabError
from syncline.lab.stage import TOPIC

LATE: Final = "falls-back"
LARGE: Final = "large-fetches"
SMALL: Final = "small-fetches"
# As many as a broker has threads that wait for its disk: one fetch of the late reader keeps them all.
LOGS: Final = 4
BATCH_BYTES: Final = 128 << 10
# Of each log, in one round.
ROUND_BATCHES: Final = 8
ROUND_BYTES: Final = ROUND_BATCHES * BATCH_BYTES
LATE_FETCHES: Final = 2
SMALL_FETCHES: Final = 4
LARGE_FETCH_BYTES: Final = LOGS * ROUND_BYTES
# How long before the others the late reader asks: a busy broker may read two connections in any order.
LEAD_S: Final = 0.005


class Measures(NamedTuple):
    """What a broker has counted for the late reader since the beginning."""

    hit_bytes: int
    missed_bytes: int
    buckets: list[list[int]]


class Reader:
    """A client that reads all logs, a fixed number of batches of each per fetch."""

    def __init__(self, client: Client, batches: int) -> None:
        self._client = client
        self._batches = batches
        self._sent_s = 0.0
        self.offset = 0

    def ask(self) -> int:
        """Send a fetch, and return the correlation id of its answer."""
        self._sent_s = time.monotonic()
        return self._client.send_fetch(TOPIC, [self.offset] * LOGS, self._batches * BATCH_BYTES)

    def answered_ms(self, correlation_id: int) -> float:
        """Wait for the answer, and return how long it took."""
        got = self._client.fetched(correlation_id)
        took_ms = (time.monotonic() - self._sent_s) * 1_000
        if got != [self._batches * BATCH_BYTES] * LOGS:
            raise LabError(f"a fetch returned {got} bytes of the logs instead of {self._batches * BATCH_BYTES} of each")
        self.offset += self._batches
        return took_ms

    def read_ms(self) -> float:
        """Fetch once, and return how long it took."""
        return self.answered_ms(self.ask())


class Readers:
    """The clients of one run."""

    def __init__(self, cluster: LabCluster, broker_id: int) -> None:
        self._control = cluster.control(broker_id)
        names = {name: cluster.client(broker_id, name) for name in ("writes", LATE, LARGE, SMALL)}
        self._clients = list(names.values())
        self._writer = names["writes"]
        self._late = Reader(names[LATE], ROUND_BATCHES // LOGS // LATE_FETCHES)
        self._large = Reader(names[LARGE], ROUND_BATCHES)
        self._small = Reader(names[SMALL], ROUND_BATCHES // SMALL_FETCHES)
        self._batch = _whole_batch()
        self._threads = ThreadPoolExecutor(2)
        self._before = Measures(0, 0, [])
        # Of each log.
        self.written_bytes = 0

    def close(self) -> None:
        """Close all connections."""
        for client in self._clients:
            client.close()
        self._threads.shutdown()

    def write(self) -> None:
        """Write what a round writes."""
        for _ in range(ROUND_BATCHES):
            self._writer.write_each(TOPIC, self._batch, LOGS)
        self.written_bytes += ROUND_BYTES

    def read(self) -> Round:
        """Read what a round reads, and return what was measured."""
        distance_bytes = self.written_bytes - self._late.offset * BATCH_BYTES
        late = self._late.ask()
        time.sleep(LEAD_S)
        large = self._large.ask()
        answers = [
            self._threads.submit(self._late.answered_ms, late),
            self._threads.submit(self._large.answered_ms, large),
        ]
        small_ms = max(self._small.read_ms() for _ in range(SMALL_FETCHES))
        late_ms, large_ms = (each.result() for each in answers)
        late_ms = max(late_ms, *(self._late.read_ms() for _ in range(LATE_FETCHES - 1)))
        before, now = self._before, self.measures()
        self._before = now
        return Round(
            written_bytes=LOGS * self.written_bytes,
            distance_bytes=distance_bytes,
            late_hit_bytes=now.hit_bytes - before.hit_bytes,
            late_missed_bytes=now.missed_bytes - before.missed_bytes,
            late_ms=late_ms,
            large_ms=large_ms,
            small_ms=small_ms,
        )

    def measures(self) -> Measures:
        """Return what the broker has counted for the late reader."""
        answer: Mapping[str, Any] = self._control.call("cache.show")
        row = next((each for each in answer["readers"] if each["client_id"] == LATE), None)
        if row is None or answer["unmeasured_bytes"]:
            raise LabError("this system cannot tell which bytes of a file are in memory.")
        return Measures(row["hit_bytes"], row["miss_bytes"], row["buckets"])


def _whole_batch() -> bytes:
    """Return a batch of one record and of `BATCH_BYTES`."""
    more_bytes = len(batch_of(["x" * BATCH_BYTES])) - BATCH_BYTES
    batch = batch_of(["x" * (BATCH_BYTES - more_bytes)])
    assert len(batch) == BATCH_BYTES, f"a batch of {len(batch)} bytes"
    return batch
