# ruff: noqa: N802, N803 -- Spark calls these methods by their Java-style names.
"""The format "syncline-killed": the sink, and points at which one process waits to be killed.

The points, when a file of that name lies in the directory of `SYNCLINE_KILLS`:

- `sending`: a task has sent some of its rows.
- `written`: a task has written all of its rows, and made them count; Spark does not know yet.
- `commit`: all tasks have, and Spark is about to commit the micro-batch.

One process takes the file, leaves its process id in `reached`, and goes on when there is a file `go`.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from syncline.pipeline.sink import writing
from syncline.pipeline.sink.spark import StreamSink, Written
from syncline.pipeline.source.spark import SynclineSource

DIRECTORY = "SYNCLINE_KILLS"
PAUSE_S_MAX = 60

# Each of Spark's batches is sent at once, so that a task sends more than once.
writing._COLLECTED_BYTES = 1


def pause(point: str) -> None:
    """Wait to be killed, or for `go`, if this point was asked for."""
    directory = Path(os.environ[DIRECTORY])
    try:
        (directory / point).rename(directory / f"{point}-taken-by-{os.getpid()}")
    except FileNotFoundError:
        return
    draft = directory / f"reached.{os.getpid()}"
    draft.write_text(str(os.getpid()))
    draft.rename(directory / "reached")
    deadline_s = time.monotonic() + PAUSE_S_MAX
    while not (directory / "go").exists() and time.monotonic() < deadline_s:
        time.sleep(0.01)


class PausingSink(StreamSink):
    """The sink with its points."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Write one task's rows."""
        written = super().write(_paused(iterator))
        pause("written")
        return written

    def commit(self, messages: list[Written | None], batchId: int) -> None:
        """Do what the sink does: nothing."""
        pause("commit")


def _paused(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for number, batch in enumerate(batches):
        if number == 2:
            pause("sending")
        yield batch


class PausingSource(SynclineSource):
    """The format."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "syncline-killed"

    def streamWriter(self, schema, overwrite: bool) -> PausingSink:
        """Return the writer with its points."""
        return PausingSink(super().streamWriter(schema, overwrite)._options)
