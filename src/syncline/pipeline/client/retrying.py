"""Retries: until an attempt succeeds, fails in a way that a retry does not fix, or patience is over.

Units: milliseconds in settings, seconds of the monotonic clock.
"""

import time
from collections.abc import Callable
from typing import Final, TypeVar

from syncline.pipeline.client.refusals import DeniedError, OtherTopicError, RetriableError
from syncline.pipeline.client.settings import ClientSettings
from syncline.pipeline.errors import BrokerError, SecurityError, TopicGoneError

_BACKOFF_MS: Final = 50
_BACKOFF_MS_MAX: Final = 1_000
# Metadata reach all brokers within a heartbeat or two; a topic still unknown then is gone.
_LATE_METADATA_MS_MAX: Final = 5_000

Answer = TypeVar("Answer")


def persist(
    task: str,
    attempt: Callable[[], Answer],
    settings: ClientSettings,
    *,
    patience_ms: Callable[[], int],
    forget: Callable[[], None],
) -> Answer:
    """Return the answer of the first attempt that succeeds; `forget` what was known between attempts.

    An attempt fails with `RetriableError`, which becomes `BrokerError` when attempts have failed for `patience_ms`, and
    `TopicGoneError` when no broker can be late with its metadata any more. A missing right is a `SecurityError`.
    """
    began_s = time.monotonic()
    backoff_ms = settings.retry_interval_ms or _BACKOFF_MS
    retry_count = 0
    other_since_s: float | None = None
    while True:
        try:
            return attempt()
        except DeniedError as error:
            raise SecurityError(
                f"{error} for {settings.security.who}, on {settings.bootstrap_text}; "
                "or log in as a user who has that right"
            ) from error
        except (OSError, RetriableError) as error:
            forget()
            now_s = time.monotonic()
            if not isinstance(error, OtherTopicError):
                other_since_s = None
            elif now_s - (other_since_s := other_since_s or now_s) > _LATE_METADATA_MS_MAX / 1000:
                raise TopicGoneError(str(error), error.topics) from error
            waited_ms, bearable_ms = (now_s - began_s) * 1000, patience_ms()
            if waited_ms + backoff_ms > bearable_ms and retry_count >= settings.retry_count_min:
                raise BrokerError(
                    f"could not {task} on {settings.bootstrap_text} within {bearable_ms} ms: "
                    f"{error}; check that the brokers are running and the option kafka.bootstrap.servers names them"
                ) from error
            retry_count += 1
            time.sleep(backoff_ms / 1000)
            if settings.retry_interval_ms is None:
                backoff_ms = min(2 * backoff_ms, _BACKOFF_MS_MAX)
