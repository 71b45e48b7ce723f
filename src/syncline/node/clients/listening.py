"""A listener that can stop accepting: what is not accepted waits in the kernel's backlog, unanswered.

Neither asyncio nor uvloop can pause a server, but both close one without its connections. So a pause replaces the
server by one that does not serve yet. Both are on duplicates of the same listening socket, whose backlog goes on.

In virtual time there is no socket; the network keeps the connections that a listener does not accept.
"""

import asyncio
import logging
import socket
from collections.abc import Callable, Coroutine
from typing import Any, Final

log = logging.getLogger("syncline.node")

# After a failure to listen again, for instance for want of descriptors.
RETRY_S: Final = 1.0

Factory = Callable[[], asyncio.BaseProtocol]


class Listening:
    """One listener of a broker."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        factory: Factory,
        *,
        host: str,
        port: int,
        listener: socket.socket | None,
        backlog: int,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        self._loop = loop
        self._factory = factory
        self._host = host
        self._port = port
        # Owned: each server gets a duplicate.
        self._listener = listener
        # How many connections the kernel keeps that are not accepted yet.
        self._backlog = backlog
        self._spawn = spawn
        self._server: asyncio.AbstractServer | None = None
        self._accepts = True
        self._is_serving = True
        self._is_closed = False
        # Whether a task is making the server do what `_accepts` says.
        self._is_changing = False

    async def open(self) -> None:
        """Listen and accept."""
        self._server = await self._serve(accepts=True)

    async def _serve(self, *, accepts: bool) -> asyncio.AbstractServer:
        if self._listener is not None:
            is_unix = self._listener.family == socket.AF_UNIX
            create_server = self._loop.create_unix_server if is_unix else self._loop.create_server
            return await create_server(
                self._factory, sock=self._listener.dup(), backlog=self._backlog, start_serving=accepts
            )
        return await self._loop.create_server(
            self._factory, self._host, self._port, backlog=self._backlog, start_serving=accepts
        )

    def accept(self, *, accepts: bool) -> None:
        """Accept connections, or leave them in the backlog from now on."""
        if accepts == self._accepts or self._is_closed:
            return
        self._accepts = accepts
        if self._is_serving and self._server is not None:
            assert not accepts, "a listener that accepts was to accept"
            self._server.close()
            self._server = None
        if not self._is_changing:
            self._is_changing = True
            self._spawn(self._change())

    async def _change(self) -> None:
        """Have a server that does what is wanted, which may change meanwhile."""
        try:
            while not self._is_closed:
                if self._server is None:
                    await self._replace()
                elif self._accepts and not self._is_serving:
                    self._is_serving = True
                    await self._server.start_serving()
                else:
                    return
        finally:
            self._is_changing = False

    async def _replace(self) -> None:
        self._is_serving = False
        try:
            server = await self._serve(accepts=False)
        except OSError as error:
            log.warning("port %s: %s; trying again in %s s", self._port, error, RETRY_S)
            await asyncio.sleep(RETRY_S)
            return
        if self._is_closed:
            server.close()
        else:
            self._server = server

    def close(self) -> None:
        """Refuse connections from now on."""
        self._is_closed = True
        if self._server is not None:
            self._server.close()
            self._server = None
        if self._listener is not None:
            self._listener.close()
