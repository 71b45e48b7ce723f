"""Running a Spark job from the command line: quiet unless it fails, and stopped by Ctrl-C."""

import contextlib
import logging
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Final, TypeVar

from syncline.local.layout import LocalClusterError

# How long an interrupted run waits for a JVM to start, so that it can be stopped, and then for it to stop.
JVM_TIMEOUT_S: Final = 10.0
# How many lines of Spark's log to show if its job fails.
SPARK_LINES: Final = 15

Result = TypeVar("Result")


@contextlib.contextmanager
def quiet_spark() -> Iterator[None]:
    """Redirect standard error of Spark's processes to a file, which remains only if the job fails.

    The JVM warns of its incubator modules before any log configuration applies, and a Python worker that is stopped
    while it answers prints a useless traceback. Both inherit descriptor 2, so this redirects the descriptor.
    """
    descriptor, name = tempfile.mkstemp(prefix="syncline-spark-", suffix=".log")
    log = Path(name)
    sys.stderr.flush()
    terminal = os.dup(2)
    os.dup2(descriptor, 2)
    os.close(descriptor)
    # Progress still goes to the terminal, also where that is standard error.
    original, sys.stderr = sys.stderr, os.fdopen(os.dup(terminal), "w")
    failure = None
    try:
        yield
    except LocalClusterError:
        # Not of Spark, and a sentence already.
        raise
    except Exception as error:  # noqa: BLE001 - reported below
        failure = error
    finally:
        sys.stderr.close()
        sys.stderr = original
        os.dup2(terminal, 2)
        os.close(terminal)
        if failure is None:
            log.unlink()
    if failure is not None:
        why = (str(failure) or repr(failure)).splitlines()[0]
        end = "".join(f"\n  {line}" for line in log.read_text(errors="replace").splitlines()[-SPARK_LINES:])
        raise LocalClusterError(f"the Spark job failed: {why}\nSpark's log is {log}, which ends:{end or ' (nothing)'}")


def with_jvm(job: Callable[[], Result], meanwhile: Callable[[], None] = lambda: None) -> Result:
    """Return the result of a Spark job; Ctrl-C stops its JVM, even while it starts, and so does an error `meanwhile`.

    The job runs in another thread: in the main thread PySpark handles Ctrl-C itself, with tracebacks, and may leave a
    JVM behind. What is to be done `meanwhile` is done in the main thread.
    """
    from pyspark import SparkContext

    outcome: Future[Result] = Future()

    def run() -> None:
        try:
            outcome.set_result(job())
        except BaseException as error:  # noqa: BLE001 - raised again by `result()`
            outcome.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    try:
        meanwhile()
        return outcome.result()
    except (KeyboardInterrupt, LocalClusterError):
        # The job's thread would log that its JVM is gone.
        logging.disable()
        deadline_s = time.monotonic() + JVM_TIMEOUT_S
        # PySpark has no public name for the process that it started.
        while (gateway := SparkContext._gateway) is None and not outcome.done():  # noqa: SLF001
            if time.monotonic() > deadline_s:
                break
            time.sleep(0.02)
        jvm: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
        if jvm is not None:
            jvm.terminate()
            try:
                jvm.wait(JVM_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                jvm.kill()
        raise
