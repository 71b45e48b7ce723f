"""Evidence that a broker's process is gone.

A broker that does not answer may be busy, stopped, or behind a cut line: only
time tells, and it gets the whole session timeout. But when a connection to its
inter-broker listener breaks and a new one is *refused*, nobody has that port
any more: the process has ended, and waiting is pointless.

The controller keeps one silent connection to each broker for this. A broken
one is tried again at once; one that breaks again soon, or cannot be made for
another reason than refusal, is tried again after a growing pause.

A wrong verdict is harmless: the broker is fenced, which is always safe, and
its next heartbeat unfences it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, cast

RETRY_FIRST_S: Final = 0.02
RETRY_LAST_S: Final = 1.0
# A connection that held for so long is made anew without a pause.
STEADY_S: Final = 0.2


class DeathWatch:
    """The watch over one broker process, until it is found gone or `stop` is called."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        host: str,
        port: int,
        *,
        on_gone: Callable[[], None],
        on_looked: Callable[[], None],
        reach: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._loop = loop
        self._host = host
        self._port = port
        self._on_gone = on_gone
        self._on_looked = on_looked
        # Waits until the line to that broker is whole; TimeoutError.
        self._reach = reach
        self._line: _Line | None = None
        self._task = loop.create_task(self._watch())

    def stop(self) -> None:
        """End the watch; no callback comes after this."""
        self._task.cancel()
        if self._line is not None:
            self._line.close()
            self._line = None

    async def _watch(self) -> None:
        pause_s = RETRY_FIRST_S
        looked = False
        while True:
            connected_at = self._loop.time()
            line = _Line(self._loop.create_future())
            is_connected = await self._connect(line)
            if is_connected is None:
                if not looked:
                    self._on_looked()
                self._on_gone()
                return
            if not looked:
                looked = True
                self._on_looked()
            if is_connected:
                self._line = line
                await line.lost
                self._line = None
                if self._loop.time() - connected_at >= STEADY_S:
                    pause_s = RETRY_FIRST_S
                    continue
            await asyncio.sleep(pause_s)
            pause_s = min(RETRY_LAST_S, 2 * pause_s)

    async def _connect(self, line: "_Line") -> bool | None:
        """Return whether the connection could be made, None when it was refused."""
        try:
            if self._reach is not None:
                await self._reach()
            await self._loop.create_connection(lambda: line, self._host, self._port)
        except ConnectionRefusedError:
            return None
        except OSError:
            return False
        return True


class _Line(asyncio.Protocol):
    """A connection on which nothing is ever said."""

    def __init__(self, lost: "asyncio.Future[None]") -> None:
        self.lost = lost
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have the interface, not the base class.
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, _exc: Exception | None) -> None:
        if not self.lost.done():
            self.lost.set_result(None)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()
