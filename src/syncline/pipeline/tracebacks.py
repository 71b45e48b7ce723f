"""Errors that reach a user of Spark as their sentence alone.

Spark passes an error on as text, through two processes. Its Python processes put the traceback before the sentence, so
that a notebook shows forty lines of ours and of Spark before what the user needs. They leave it out if the environment
has `SPARK_HIDE_TRACEBACK` at that moment. `plainly` sets it in the process that is about to fail with an error of ours:
that process ends with it, so that errors of other origin keep their traceback everywhere else.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from syncline.pipeline.errors import PipelineError

_HIDE: Final = "SPARK_HIDE_TRACEBACK"


@contextmanager
def plainly() -> Iterator[None]:
    """Let an error of ours reach the user without a traceback; every method that Spark calls runs in this.

    For Spark's own Python processes only, not for functions that a user calls in the driver.
    """
    try:
        yield
    except PipelineError:
        os.environ[_HIDE] = "1"
        raise
