"""Hosts, directed links, and their faults.

Bytes that wait in a cut link for too long break their sender's connection. A
cut in one direction is enough to prevent new connections.

The simulated kernel keeps working while a process is paused: it accepts
connections into the backlog and buffers bytes. When a process dies, its kernel
closes its connections (FIN or RST). When a whole host dies, its peers get no
message; they find out when they send something after it is back.

Addresses are host names. 127.0.0.1 and localhost mean the host that listens on
that port, so that programs that use only the loopback address work, too. Time
is in nanoseconds, sizes in bytes.
"""

import asyncio
import contextvars
import errno
from collections.abc import Callable
from typing import Final, Self

from syncline.virtual.determinism.streams import stream
from syncline.virtual.determinism.trace import Trace, fingerprint
from syncline.virtual.network.links import Link, NetworkSettings
from syncline.virtual.network.transport import VirtualSocket, VirtualTransport, connected_pair
from syncline.virtual.network.unread import MakeSender, UnreadFiles
from syncline.virtual.time.durations import SECOND
from syncline.virtual.time.loop import VirtualLoop
from syncline.virtual.time.process import KERNEL, Process, current_process

WORLD_HOST: Final = "world"
LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
ANY_ADDRESS: Final = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - a name in a table, nothing is bound
EPHEMERAL_PORT_MIN: Final = 40_000
# A SYN without an answer is sent again after these delays; then the connection attempt times out.
SYN_RETRY_NS: Final = (1 * SECOND, 2 * SECOND, 4 * SECOND, 8 * SECOND)


class Listener:
    """A listening port of a process; what `create_server` returns."""

    def __init__(
        self,
        network: "Network",
        name: tuple[str, int],
        address: str,
        factory: Callable[[], asyncio.BaseProtocol],
        *,
        accepts: bool,
    ) -> None:
        self._network = network
        self.process = current_process.get()
        self.key = name
        self.host = address
        self.port = name[1]
        self.factory = factory
        self.context = contextvars.copy_context()
        self.is_open = True
        self._accepts = accepts
        # Connections that the kernel has made and the program has not accepted.
        self._backlog: list[VirtualTransport] = []

    @property
    def sockets(self) -> tuple[VirtualSocket, ...]:
        """Return the one listening socket, or none when closed."""
        return (VirtualSocket((self.host, self.port), None),) if self.is_open else ()

    def is_serving(self) -> bool:
        """Return whether connections are accepted."""
        return self.is_open and self._accepts

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """Return the loop."""
        return self._network.loop

    def close(self) -> None:
        """Stop listening; connections stay, and those in the backlog are reset."""
        if self.is_open:
            self.is_open = False
            self._network.unlisten(self)
            for transport in self._backlog:
                transport.abort()

    def arrived(self, transport: VirtualTransport) -> None:
        """Accept a connection, or leave it in the backlog."""
        if self._accepts:
            self._network.loop.call_soon(transport.accept, self.factory, context=self.context)
        else:
            self._backlog.append(transport)

    async def start_serving(self) -> None:
        """Accept connections from now on."""
        self._accepts = True
        waiting, self._backlog = self._backlog, []
        for transport in waiting:
            self.arrived(transport)

    async def serve_forever(self) -> None:
        """Wait until cancelled, then close."""
        try:
            await self._network.loop.create_future()
        finally:
            self.close()

    async def wait_closed(self) -> None:
        """Return soon, as asyncio does on Python 3.11."""
        await asyncio.sleep(0)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        self.close()


class Network:
    """All hosts and links of one run."""

    def __init__(self, loop: VirtualLoop, seed: int, trace: Trace, settings: NetworkSettings | None = None) -> None:
        self.loop = loop
        self.trace = trace
        self.settings = settings or NetworkSettings()
        self._seed = seed
        self._links: dict[tuple[str, str], Link] = {}
        self._listeners: dict[tuple[str, int], Listener] = {}
        self._next_port: dict[str, int] = {}
        self._silent_hosts: dict[str, None] = {}
        self._transports: dict[VirtualTransport, None] = {}
        self._connections = 0
        self.unread = UnreadFiles(stream(seed, "unread"), self.settings.window_bytes)
        # Servers at these ports can send files to other hosts unread.
        self._senders: dict[int, MakeSender] = {}
        loop.network = self

    def send_files_from(self, port: int, make_sender: MakeSender) -> None:
        """Have servers at this port send files unread, with what `make_sender` returns for each connection."""
        self._senders[port] = make_sender

    def link(self, source: str, target: str) -> Link:
        """Return the link from `source` to `target`."""
        link = self._links.get((source, target))
        if link is None:
            rng = stream(self._seed, "net", source, target)
            link = self._links[source, target] = Link(source, target, rng, self.settings)
        return link

    def cut(self, source: str, target: str) -> None:
        """Block the link from `source` to `target` until it has been healed as often as cut."""
        self.link(source, target).cuts += 1

    def heal(self, source: str, target: str) -> None:
        """Undo one `cut`; send again what waited."""
        link = self.link(source, target)
        assert link.cuts > 0, f"{source}>{target} is not cut"
        link.cuts -= 1
        if link.cuts == 0:
            stalled, link.stalled = link.stalled, {}
            for pipe in stalled:
                pipe.send_again()

    def delay(self, source: str, target: str, extra_ns_max: int) -> None:
        """Add up to `extra_ns_max` to each latency from now on; 0 ends it."""
        self.link(source, target).extra_ns_max = extra_ns_max

    def reset_connections(self, one: str, other: str) -> None:
        """Break all connections between two hosts; both sides see a reset."""
        for transport in list(self._transports):
            if transport.host == one and transport.peer_host == other:
                transport.break_both(ConnectionResetError(errno.ECONNRESET, "connection reset by peer"))

    def process_died(self, process: Process, *, is_silent: bool) -> None:
        """Close what `process` had open: as the kernel of a killed program does, or silently after a power cut."""
        for listener in [each for each in self._listeners.values() if each.process is process]:
            listener.close()
        if is_silent:
            self._silent_hosts[process.host] = None
        for transport in [each for each in self._transports if each.process is process]:
            transport.process_died(is_silent=is_silent)

    def host_is_back(self, host: str) -> None:
        """Let a host answer again after a power cut: it resets connections that it does not know."""
        self._silent_hosts.pop(host, None)
        for transport in list(self._transports):
            if transport.peer_host == host:
                transport.peer_is_back()

    def is_silent(self, host: str) -> bool:
        """Return whether `host` has lost power: not even its kernel answers."""
        return host in self._silent_hosts

    def resolve(self, host: str) -> str:
        """Return the address of `host`, which is its name."""
        return host

    def listen(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str | list[str] | None, port: int, *, accepts: bool
    ) -> Listener:
        """Return a listener on the current process's host."""
        process = current_process.get()
        name = process.host if process is not None else WORLD_HOST
        address = host if isinstance(host, str) and host not in ANY_ADDRESS | LOOPBACK else name
        port = port or self._take_port(name)
        if (name, port) in self._listeners:
            raise OSError(errno.EADDRINUSE, f"address already in use: {name}:{port}")
        listener = Listener(self, (name, port), address, factory, accepts=accepts)
        self._listeners[name, port] = listener
        return listener

    def unlisten(self, listener: Listener) -> None:
        """Forget a listener that closed."""
        self._listeners.pop(listener.key, None)

    def _take_port(self, host: str) -> int:
        port = self._next_port.get(host, EPHEMERAL_PORT_MIN)
        self._next_port[host] = port + 1
        return port

    def _find(self, host: str, port: int) -> tuple[str, Listener | None]:
        """Return the name of the host at an address, and its listener."""
        if host in LOOPBACK:
            for (name, listening_port), listener in self._listeners.items():
                if listening_port == port:
                    return name, listener
            return WORLD_HOST, None
        return host, self._listeners.get((host, port))

    async def connect(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int
    ) -> tuple[VirtualTransport, asyncio.BaseProtocol]:
        """Return a connected transport and its protocol; raises OSError as a kernel would."""
        process = current_process.get()
        source = process.host if process is not None else WORLD_HOST
        attempt = _Attempt(self, source, host, port)
        try:
            transport = await attempt.connected
        except BaseException:
            attempt.abandon()
            raise
        protocol = factory()
        transport.start(protocol)
        return transport, protocol

    def new_connection(self, source: str, listener: Listener, target: str) -> VirtualTransport:
        """Return the client's end of a new connection; the listener's process accepts the other end when it runs."""
        self._connections += 1
        client_name = (source, self._take_port(source))
        server_name = (target, listener.port)
        client, server = connected_pair(
            self, self._connections, client_name, server_name, (self.link(source, target), self.link(target, source))
        )
        self._transports[client] = None
        if listener.port in self._senders:
            server.send_files_with(self.unread.sender_of(server, self._senders[listener.port]))
        server.adopt(listener.context)
        self._transports[server] = None
        listener.arrived(server)
        return client

    @property
    def end_count(self) -> int:
        """The number of open ends of connections."""
        return len(self._transports)

    def forget(self, transport: VirtualTransport) -> None:
        """Drop an end that is closed."""
        self._transports.pop(transport, None)

    def delivered(self, link: Link, connection: int, data: bytes) -> None:
        """Record bytes that reached a program."""
        self.trace.record(self.loop.now_ns, "net", link.source, link.target, connection, len(data), fingerprint(data))


class _Attempt:
    """One connection attempt: a SYN, its answer, and retries if none comes."""

    def __init__(self, network: Network, source: str, host: str, port: int) -> None:
        self._network = network
        self._source = source
        self._host = host
        self._port = port
        self._tries = 0
        self._made: VirtualTransport | None = None
        self._context = contextvars.copy_context()
        self.connected: asyncio.Future[VirtualTransport] = network.loop.create_future()
        self._send_syn()

    def abandon(self) -> None:
        """Forget the attempt: the program no longer waits."""
        if self._made is not None:
            self._made.abort()
        elif not self.connected.done():
            self.connected.cancel()

    def _send_syn(self) -> None:
        if self.connected.done():
            return
        network = self._network
        target, _ = network._find(self._host, self._port)  # noqa: SLF001 - one module
        there = network.link(self._source, target)
        back = network.link(target, self._source)
        latency_ns = there.latency_ns()
        if there.cuts or back.cuts or network.is_silent(target):
            self._retry()
        else:
            network.loop.call_at_ns(network.loop.now_ns + latency_ns, self._syn_arrived, context=KERNEL)

    def _retry(self) -> None:
        loop = self._network.loop
        if self._tries == len(SYN_RETRY_NS):
            self._answer(loop.now_ns, TimeoutError(errno.ETIMEDOUT, "connection timed out"))
            return
        delay_ns = SYN_RETRY_NS[self._tries]
        self._tries += 1
        loop.call_at_ns(loop.now_ns + delay_ns, self._send_syn, context=KERNEL)

    def _syn_arrived(self) -> None:
        network = self._network
        process = self._context.get(current_process)
        if self.connected.done() or (process is not None and not process.alive):
            return
        target, listener = network._find(self._host, self._port)  # noqa: SLF001 - one module
        back = network.link(target, self._source)
        if back.cuts or network.is_silent(target):
            self._retry()
            return
        answer_ns = network.loop.now_ns + back.latency_ns()
        if listener is None:
            refused = ConnectionRefusedError(errno.ECONNREFUSED, f"connection refused by {target}:{self._port}")
            self._answer(answer_ns, refused)
            return
        self._made = network.new_connection(self._source, listener, target)
        self._made.adopt(self._context)
        self._answer(answer_ns, None)

    def _answer(self, when_ns: int, error: OSError | None) -> None:
        self._network.loop.call_at_ns(when_ns, self._answered, error, context=self._context)

    def _answered(self, error: OSError | None) -> None:
        if self.connected.done():
            return
        if error is not None:
            self.connected.set_exception(error)
        else:
            assert self._made is not None
            self.connected.set_result(self._made)
