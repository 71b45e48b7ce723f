"""Connections on the simulated network, seen through asyncio's own streams and protocols."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from syncline.virtual.determinism.trace import Trace
from syncline.virtual.network.links import NetworkSettings
from syncline.virtual.network.network import Network
from syncline.virtual.time.durations import MS
from syncline.virtual.time.loop import VirtualLoop, run
from syncline.virtual.time.process import Process, current_process

T = TypeVar("T")


class World:
    """A loop, a network, and processes by host name."""

    def __init__(self, seed: int = 1, settings: NetworkSettings | None = None) -> None:
        self.loop = VirtualLoop()
        self.trace = Trace()
        self.network = Network(self.loop, seed, self.trace, settings)
        self.processes: dict[str, Process] = {}

    def process(self, host: str) -> Process:
        """Return the running process of a host."""
        return self.processes.setdefault(host, Process(host))

    def on(self, host: str, work: Callable[[], Awaitable[T]]) -> "asyncio.Task[T]":
        """Start a task on a host."""
        return self.process(host).context.run(self.loop.create_task, work())

    def kill(self, host: str, *, is_silent: bool = False) -> None:
        """Kill the process of a host."""
        process = self.processes.pop(host)
        process.die()
        self.network.process_died(process, is_silent=is_silent)


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send back what comes."""
    while data := await reader.read(1000):
        writer.write(data)
        await writer.drain()
    writer.close()


async def close(writer: asyncio.StreamWriter) -> None:
    """Close a connection to the echo server, and wait until the server has closed its end as well."""
    writer.close()
    await writer.wait_closed()
    await asyncio.sleep(1)


def serving(world: World, host: str = "server") -> None:
    """Start the echo server."""

    async def serve() -> None:
        await asyncio.start_server(echo, host, 7)

    world.on(host, serve)


def test_streams_carry_bytes_both_ways_and_end_with_end_of_file() -> None:
    """A megabyte goes through an echo server, in order, and the end of the stream follows it."""
    world = World()
    serving(world)
    data = bytes(range(256)) * 4096

    async def client() -> bytes:
        await asyncio.sleep(0.01)
        reader, writer = await asyncio.open_connection("server", 7)
        writer.write(data)
        writer.write_eof()
        result = await reader.read()
        await close(writer)
        return result

    assert run(client(), world.loop) == data
    assert world.network.end_count == 0


def test_transport_names_both_ends() -> None:
    """peername, sockname and a socket that takes options are there."""
    world = World()
    serving(world)

    async def client() -> tuple[object, ...]:
        await asyncio.sleep(0.01)
        _, writer = await asyncio.open_connection("server", 7)
        sock = writer.get_extra_info("socket")
        sock.setsockopt(6, 1, 1)
        names = writer.get_extra_info("peername"), writer.get_extra_info("sockname")[0]
        shown = (*names, sock.getpeername(), sock.fileno())
        await close(writer)
        return shown

    assert run(world.on("client", client), world.loop) == (("server", 7), "client", ("server", 7), -1)


class Recorder(asyncio.BufferedProtocol):
    """A buffered protocol with a buffer of 100 bytes."""

    def __init__(self) -> None:
        self.buffer = bytearray(100)
        self.data = b""
        self.calls: list[str] = []
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note the beginning."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.calls.append("made")

    def get_buffer(self, sizehint: int) -> bytearray:
        """Return the buffer."""
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Keep what came."""
        self.data += self.buffer[:nbytes]

    def eof_received(self) -> bool:
        """Note the end of the stream."""
        self.calls.append("end")
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Note the end."""
        self.calls.append(f"lost {type(exc).__name__}")

    def pause_writing(self) -> None:
        """Note the pause."""
        self.calls.append("pause")

    def resume_writing(self) -> None:
        """Note its end."""
        self.calls.append("resume")


def connected(world: World, server: asyncio.BaseProtocol, client: asyncio.BaseProtocol) -> None:
    """Connect two protocols from host client to host server."""

    async def serve() -> None:
        await world.loop.create_server(lambda: server, "server", 7)

    async def connect() -> None:
        await asyncio.sleep(0.01)
        await world.loop.create_connection(lambda: client, "server", 7)

    world.on("server", serve)
    world.on("client", connect)


def later(world: World, seconds: float) -> None:
    """Let the world go on."""
    asyncio.set_event_loop(world.loop)
    world.loop.run_until_complete(asyncio.sleep(seconds))


@pytest.fixture
def world() -> "Callable[[], World]":
    """Return a world that is taken apart afterwards."""
    worlds: list[World] = []

    def make(settings: NetworkSettings | None = None) -> World:
        worlds.append(World(settings=settings))
        return worlds[-1]

    yield make
    for each in worlds:
        each.loop.close()
        for process in each.processes.values():
            process.abandon()


def test_buffered_protocol_is_filled_piece_by_piece(world) -> None:
    """A protocol with a small buffer gets everything, and connection_made first and connection_lost last."""
    it, server, client = world(), Recorder(), Recorder()
    connected(it, server, client)
    later(it, 0.1)
    client.transport.write(bytes(range(250)) * 3)
    client.transport.close()
    later(it, 0.1)

    assert server.data == bytes(range(250)) * 3
    assert server.calls == ["made", "end", "lost NoneType"]
    assert client.calls == ["made", "lost NoneType"]


def test_writer_is_paused_when_the_reader_does_not_read(world) -> None:
    """Beyond the window bytes count as the writer's own, until the reader takes them."""
    it, server, client = world(NetworkSettings(window_bytes=1000)), Recorder(), Recorder()
    connected(it, server, client)
    later(it, 0.1)
    server.transport.pause_reading()
    client.transport.write(bytes(1000 + (64 << 10)))
    client.transport.write(b"x")
    later(it, 1)

    assert (client.calls[1:], len(server.data)) == (["pause"], 0)

    server.transport.resume_reading()
    later(it, 1)

    assert (client.calls[1:], len(server.data)) == (["pause", "resume"], 1001 + (64 << 10))


def test_abort_is_a_reset_on_the_other_side(world) -> None:
    """Only the side that did not abort sees an error."""
    it, server, client = world(), Recorder(), Recorder()
    connected(it, server, client)
    later(it, 0.1)
    client.transport.abort()
    later(it, 0.1)

    assert server.calls[-1] == "lost ConnectionResetError"
    assert client.calls[-1] == "lost NoneType"


def test_killed_process_ends_its_connections_and_is_refused_afterwards(world) -> None:
    """The kernel of a killed program closes its connections and listeners."""
    it, server, client = world(), Recorder(), Recorder()
    connected(it, server, client)
    later(it, 0.1)
    it.kill("server")
    later(it, 0.1)

    assert client.calls[-2:] == ["end", "lost NoneType"]
    assert server.calls == ["made"]
    with pytest.raises(ConnectionRefusedError):
        it.loop.run_until_complete(it.on("client", lambda: it.loop.create_connection(Recorder, "server", 7)))


def test_power_cut_is_silent_until_the_host_is_back(world) -> None:
    """A write to a host that lost its power gets no answer, and a reset once it runs again."""
    it, server, client = world(), Recorder(), Recorder()
    connected(it, server, client)
    later(it, 0.1)
    it.kill("server", is_silent=True)
    client.transport.write(b"anybody?")
    later(it, 5)

    assert client.calls == ["made"]

    it.network.host_is_back("server")
    later(it, 0.2)

    assert client.calls[-1] == "lost ConnectionResetError"


def test_cut_link_delivers_in_order_after_it_has_healed(world) -> None:
    """Nothing is lost in a cut: TCP sends it again."""
    it, server, client = world(), Recorder(), Recorder()
    connected(it, server, client)
    later(it, 0.1)
    it.network.cut("client", "server")
    client.transport.write(b"one ")
    later(it, 1)
    client.transport.write(b"two ")
    server.transport.write(b"the other way is open")
    later(it, 1)

    assert (server.data, client.data) == (b"", b"the other way is open")

    it.network.heal("client", "server")
    client.transport.write(b"three")
    later(it, 1)

    assert server.data == b"one two three"


def test_connection_breaks_when_a_cut_lasts_too_long(world) -> None:
    """The sender's kernel gives up; the other side learns it once the link is healed."""
    it, server, client = world(), Recorder(), Recorder()
    connected(it, server, client)
    later(it, 0.1)
    it.network.cut("client", "server")
    client.transport.write(b"lost")
    later(it, 21)

    assert client.calls[-1] == "lost TimeoutError"

    it.network.heal("client", "server")
    server.transport.write(b"still there?")
    later(it, 1)

    assert server.calls[-1] == "lost ConnectionResetError"
    assert server.data == b""


def test_one_way_cut_keeps_connections_from_being_made(world) -> None:
    """The answer to a connection attempt is lost as well as the attempt; it is tried again after the cut."""
    it = world()
    serving(it)
    it.network.cut("server", "client")

    async def connect() -> float:
        await asyncio.sleep(0.01)
        _, writer = await asyncio.open_connection("server", 7)
        connected_at = it.loop.time()
        await close(writer)
        return connected_at - 1

    it.loop.call_later(2, it.network.heal, "server", "client")

    assert 2 < it.loop.run_until_complete(it.on("client", connect)) < 4


def test_paused_process_accepts_and_reads_when_it_goes_on(world) -> None:
    """The kernel of a paused program takes connections and bytes; the program sees them later."""
    it, server, client = world(), Recorder(), Recorder()
    connected(it, server, client)
    it.loop.call_later(0.005, it.process("server").pause)
    later(it, 1)
    client.transport.write(b"hello")
    later(it, 1)

    assert (client.calls, server.calls) == (["made"], [])

    it.loop.release(it.process("server").resume())
    later(it, 1)

    assert (server.calls, server.data) == (["made"], b"hello")


def test_callbacks_run_in_the_process_of_their_end(world) -> None:
    """Whatever a protocol starts belongs to the host on which it runs."""
    it = world()
    seen: list[str] = []

    class Asking(Recorder):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            seen.append(repr(current_process.get()))

        def connection_lost(self, exc: Exception | None) -> None:
            seen.append(repr(current_process.get()))

    connected(it, Asking(), Asking())
    later(it, 0.1)
    it.network.reset_connections("client", "server")
    later(it, 0.1)

    assert sorted(seen) == ["client#0", "client#0", "server#0", "server#0"]


def test_delay_makes_the_way_longer(world) -> None:
    """An extra delay counts per delivery and keeps the order."""
    it, server, client = world(), Recorder(), Recorder()
    connected(it, server, client)
    later(it, 0.1)
    it.network.delay("client", "server", 10_000 * MS)
    client.transport.write(b"slow ")
    later(it, 0.001)
    client.transport.write(b"boat")
    later(it, 0.05)

    assert server.data == b""

    later(it, 11)

    assert server.data == b"slow boat"


def chatter(seed: int) -> str:
    """Return the trace hash of a few echoes."""
    world = World(seed)
    serving(world)

    async def client() -> None:
        await asyncio.sleep(0.01)
        reader, writer = await asyncio.open_connection("server", 7)
        for number in range(50):
            writer.write(b"x" * (number + 1))
            await reader.readexactly(number + 1)
        await close(writer)

    run(world.on("client", client), world.loop)
    return world.trace.digest()


def test_trace_is_a_function_of_the_seed() -> None:
    """The same seed gives the same hash, another seed another one."""
    assert chatter(1) == chatter(1)
    assert chatter(1) != chatter(2)
