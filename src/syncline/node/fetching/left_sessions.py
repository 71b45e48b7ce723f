"""The fetch sessions of connections that ended: closed for one connection per turn of the loop.

Closing takes some 0.3 microseconds per partition, and an attacker, or a load balancer, may close hundreds of
connections at once.
"""

import asyncio
from collections import deque

from syncline.core.fetching.session_bytes import Payer
from syncline.core.fetching.session_cache import SessionCache


class LeftSessions:
    """The connections that ended, and whose sessions are still to be closed."""

    def __init__(self, loop: asyncio.AbstractEventLoop, sessions: SessionCache) -> None:
        self._loop = loop
        self._sessions = sessions
        self._left: deque[Payer] = deque()

    def connection_lost(self, payer: Payer) -> None:
        """Close the sessions that are counted for a connection."""
        if not self._sessions.is_payer(payer):
            return
        self._left.append(payer)
        if len(self._left) == 1:
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._sessions.payer_left(self._left.popleft())
        if self._left:
            self._loop.call_soon(self._turn)
