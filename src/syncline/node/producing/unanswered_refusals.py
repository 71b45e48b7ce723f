"""Log lines about refused records whose producer gets no answer (acks=0).

All that such a producer sees is that its connection closes, so the broker's log must say why. A producer that tries
again at once would fill the log, so most refusals are only counted: a line says how many came since the last one.
"""

import logging
from typing import TYPE_CHECKING, Final

from syncline.model.errors import ErrorCode
from syncline.model.ids import TopicPartition
from syncline.node.clock import Clock

if TYPE_CHECKING:
    from syncline.node.serving.request import Request

log = logging.getLogger("syncline.node")

LOG_INTERVAL_MS: Final = 10_000
# Clients choose their id and the topic's name, up to 32 KiB each, with any characters.
SHOWN_MAX: Final = 260


class UnansweredRefusals:
    """What this broker refused without an answer; logged at most once per interval."""

    __slots__ = ("_clock", "_logged_at_ms", "_unlogged")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._logged_at_ms: int | None = None
        self._unlogged = 0

    def note(self, request: "Request", partition: TopicPartition, error: int, message: str | None) -> None:
        """Log, or count, a request that ends with its connection; `partition` is the first that was refused."""
        now_ms = self._clock.mono_ms()
        if self._logged_at_ms is not None and now_ms - self._logged_at_ms < LOG_INTERVAL_MS:
            self._unlogged += 1
            return
        log.warning(
            "client %r at %s: records for %r were refused with %s%s; acks=0 has no answer, so the connection is"
            " closed%s",
            (request.client_id or "")[:SHOWN_MAX],
            request.client_host,
            str(partition)[-SHOWN_MAX:],
            ErrorCode(error).name,
            f" ({message})" if message else "",
            f" ({self._unlogged} more since the last line)" if self._unlogged else "",
        )
        self._logged_at_ms = now_ms
        self._unlogged = 0
