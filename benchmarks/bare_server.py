"""A server that only answers: what a uvloop event loop costs for connections that ask, wait and ask again.

    python -m benchmarks.bare_server

It prints its port. The first request of a connection is answered at once, later ones after half a second, up to 10 ms
late as with our brokers; each answer is the same, and looks like that of a fetch without records.
"""

import asyncio
import resource
import struct
from typing import Any, Final

import uvloop

WAIT_S: Final = 0.5
GRID_S: Final = 0.01
# Size, correlation id, throttle time, error, session id, no topics.
ANSWER: Final = struct.pack(">iiihii", 18, 1, 0, 0, 1, 0)


class _Waiting:
    """The waiting connections, by the time of their response."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._slots: dict[int, list[asyncio.WriteTransport]] = {}

    def add(self, transport: asyncio.WriteTransport) -> None:
        slot = int((self._loop.time() + WAIT_S) / GRID_S) + 1
        others = self._slots.get(slot)
        if others is None:
            others = self._slots[slot] = []
            self._loop.call_at(slot * GRID_S, self._answer, slot)
        others.append(transport)

    def _answer(self, slot: int) -> None:
        for transport in self._slots.pop(slot):
            transport.write(ANSWER)


class _Connection(asyncio.BufferedProtocol):
    """One connection; requests arrive whole."""

    buffer: Final = memoryview(bytearray(1 << 16))

    def __init__(self, waiting: _Waiting) -> None:
        self._waiting = waiting
        self._is_first = True

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def get_buffer(self, _size: int) -> memoryview:
        return self.buffer

    def buffer_updated(self, _size: int) -> None:
        if self._is_first:
            self._is_first = False
            self._transport.write(ANSWER)
        else:
            self._waiting.add(self._transport)


async def _serve() -> None:
    loop = asyncio.get_running_loop()
    waiting = _Waiting(loop)
    server = await loop.create_server(lambda: _Connection(waiting), "127.0.0.1", 0, backlog=1_000)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve())
