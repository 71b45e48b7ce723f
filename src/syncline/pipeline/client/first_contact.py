"""First contact: when a cluster that only closes connections counts as one that expects another protocol.

A listener that wants TLS, a login or a client certificate closes the connection of a client that does not know this,
often without an error. A broker that is stopping does so, too, for a moment. So a client that never got a response
gives up after some seconds of closed connections; one that did get one speaks the right protocol, and is patient.

An answer to ApiVersions proves nothing: listeners that want a login answer it before.

Units: seconds of the monotonic clock.
"""

from dataclasses import dataclass
from typing import Final

from syncline.pipeline.client.connection import ClosedEarlyError
from syncline.pipeline.client.messages import Api

PATIENCE_S: Final = 3
_API_VERSIONS: Final = 18


@dataclass(slots=True)
class FirstContact:
    """Whether any broker has answered, and since when connections have only been closed early."""

    is_proven: bool = False
    _closed_since_s: float | None = None

    def answered(self, api: Api) -> None:
        """Note an answer."""
        self.is_proven = self.is_proven or api.key != _API_VERSIONS

    def is_hopeless(self, failure: OSError, now_s: float) -> bool:
        """Note a failure, and return whether the time for a first answer is over."""
        if self.is_proven or not isinstance(failure, ClosedEarlyError):
            self._closed_since_s = None
            return False
        if self._closed_since_s is None:
            self._closed_since_s = now_s
        return now_s - self._closed_since_s >= PATIENCE_S
