"""Stepping: requests that take long, among others."""

import asyncio
import weakref
from collections.abc import Callable
from itertools import pairwise

import pytest

from syncline.node.broker import Broker
from syncline.node.counting.counters import request_kind
from syncline.node.serving.connection import Connection
from syncline.node.serving.request import FREED_PER_STEP, Request, Steps
from syncline.node.serving.stepping import FREED_PER_TURN, SLICE_MS, STEPS_PER_SLICE
from syncline.wire.api import ApiKey
from tests.node.wire_client import WireClient
from tests.node.world import World

MS = 1_000_000
LONG = 4 * STEPS_PER_SLICE
# A request without a body, which a test's own handler serves.
KEY, VERSION = ApiKey.LIST_GROUPS, 0


def serve(world: World, handler: Callable[[Broker, Request], Steps | None]) -> None:
    """Have a handler of the test serve ListGroups."""
    world.broker().dispatcher.handlers.replace(KEY, handler)


async def answered(client: WireClient, correlation_id: int) -> None:
    """Wait for an answer."""
    await client.body(correlation_id)


async def test_short_request_is_served_between_the_slices_of_a_long_one(world: World) -> None:
    """It arrives at the same moment, and does not wait for the end of the long one."""
    counts = world.broker().dispatcher.counts
    short_ones: list[int] = []

    def handler(_broker: Broker, request: Request) -> Steps:
        for _ in range(LONG):
            yield
        short_ones.append(counts.get(request_kind(ApiKey.API_VERSIONS, 0, "client"), 0))
        request.reply_parts((b"",))

    serve(world, handler)
    slow, quick = await world.client(), await world.client()
    long, short = slow.send(KEY, VERSION), quick.send(ApiKey.API_VERSIONS, 0)
    await answered(slow, long)
    await answered(quick, short)

    assert short_ones == [1]


async def test_later_request_of_the_same_connection_waits_for_the_long_one(world: World) -> None:
    """Answers come in order, and nothing is done for the second request before the first is answered."""
    seen: list[str] = []

    def handler(_broker: Broker, request: Request) -> Steps:
        number = request.correlation_id
        for step in range(LONG if number == 0 else 1):
            if step == 0:
                seen.append(f"{number} begins")
            yield
        seen.append(f"{number} ends")
        request.reply_parts((bytes([number]),))

    serve(world, handler)
    client = await world.client()
    client.transport.write(client.frame(KEY, VERSION) + client.frame(KEY, VERSION) + client.frame(KEY, VERSION))
    bodies = [await client.body(number) for number in range(3)]

    assert bodies == [b"\x00", b"\x01", b"\x02"]
    assert seen == [f"{number} {what}" for number in range(3) for what in ("begins", "ends")]


async def test_body_of_a_long_request_stays_until_it_is_answered(world: World) -> None:
    """The receive buffer is not used again while a client's request is unfinished."""
    bodies: list[bytes] = []

    def handler(_broker: Broker, request: Request) -> Steps:
        body = request.body
        for _ in range(LONG):
            yield
        bodies.append(bytes(body[request.position :]))
        request.reply_parts((b"",))

    serve(world, handler)
    client = await world.client()
    sent = [client.send(KEY, VERSION, bytes([number]) * 1_000) for number in range(1, 4)]
    for correlation_id in sent:
        await answered(client, correlation_id)

    assert bodies == [bytes([number]) * 1_000 for number in range(1, 4)]


async def test_answer_in_steps_to_an_earlier_request_does_not_end_the_wait_for_a_later_one(world: World) -> None:
    """A parked fetch of many partitions is answered in steps while a long commit behind it is read from the buffer.

    The later requests must go on waiting for the commit, in whose receive buffer they would arrive.
    """
    parked: list[Request] = []
    seen: list[bytes] = []

    def handler(_broker: Broker, request: Request) -> Steps | None:
        if not request.correlation_id:
            parked.append(request)
            return None
        return work(request, LONG * (3 - request.correlation_id))

    def work(request: Request, steps: int) -> Steps:
        body = request.body
        for step in range(steps):
            if request.correlation_id == 1 and step == STEPS_PER_SLICE + 1:
                # What the first one has waited for has come.
                request.connection.step(parked[0], answering(parked[0]))
            yield
        seen.append(bytes(body[request.position :]))
        request.reply_parts((b"",))

    def answering(request: Request) -> Steps:
        for _ in range(STEPS_PER_SLICE):
            yield
        request.reply_parts((b"",))

    serve(world, handler)
    client = await world.client()
    sent = [client.send(KEY, VERSION, bytes([number]) * 1_000) for number in range(4)]
    for correlation_id in sent:
        await answered(client, correlation_id)

    assert seen == [bytes([number]) * 1_000 for number in range(1, 4)]
    assert list(client.answers) == sent


async def test_body_of_a_long_request_stays_while_other_connections_receive(world: World) -> None:
    """All connections read into one buffer, until one needs it for longer than a callback."""
    bodies: list[bytes] = []

    def handler(_broker: Broker, request: Request) -> Steps:
        body = request.body
        for _ in range(LONG):
            yield
        bodies.append(bytes(body[request.position :]))
        request.reply_parts((b"",))

    def receive(connection: Connection, frame: bytes) -> None:
        connection.get_buffer(-1)[: len(frame)] = frame
        connection.buffer_updated(len(frame))

    serve(world, handler)
    clients = [await world.client() for _ in range(3)]
    for number, (client, connection) in enumerate(zip(clients, world.connections(), strict=True)):
        world.call(1, receive, connection, client.frame(KEY, VERSION, bytes([number]) * 1_000))
    for client in clients:
        await answered(client, 0)

    assert sorted(bodies) == [bytes([number]) * 1_000 for number in range(3)]


async def test_long_requests_take_turns(world: World) -> None:
    """The one that began last is not the one that ends last: each has its share of every slice."""
    ended: list[int] = []

    def handler(_broker: Broker, request: Request) -> Steps:
        steps = bytes(request.body[request.position :])[0] * STEPS_PER_SLICE
        for _ in range(steps):
            yield
        ended.append(steps // STEPS_PER_SLICE)
        request.reply_parts((b"",))

    serve(world, handler)
    clients = [await world.client() for _ in range(3)]
    sent = [(client, client.send(KEY, VERSION, bytes([size]))) for client, size in zip(clients, (9, 6, 3), strict=True)]
    for client, correlation_id in sent:
        await answered(client, correlation_id)

    assert ended == [3, 6, 9]


async def test_slices_end_by_the_clock(world: World) -> None:
    """Slow steps are fewer to a slice: no callback takes much longer than it, however many requests there are."""

    def handler(_broker: Broker, request: Request) -> Steps:
        for _ in range(50):
            world.loop.now_ns += MS
            yield
        request.reply_parts((b"",))

    serve(world, handler)
    clients = [await world.client() for _ in range(4)]
    for client, correlation_id in [(client, client.send(KEY, VERSION)) for client in clients]:
        await answered(client, correlation_id)
    holds = world.broker().dispatcher.holds

    assert SLICE_MS <= holds.longest_ms <= SLICE_MS + 1
    assert holds.held_ms.total >= 4 * 50


async def test_steps_that_other_steps_begin_share_their_slice(world: World) -> None:
    """A fetch reads, decides and answers, each in steps of its own: the callback ends as soon as without them."""

    def work(request: Request, more: int) -> Steps:
        for _ in range(SLICE_MS - 1):
            world.loop.now_ns += MS
            yield
        if more:
            request.step(work(request, more - 1))
        else:
            request.reply_parts((b"",))

    serve(world, lambda _broker, request: work(request, 3))
    client = await world.client()
    await answered(client, client.send(KEY, VERSION))
    holds = world.broker().dispatcher.holds

    assert SLICE_MS <= holds.longest_ms <= SLICE_MS + 1


class Parked:
    """A request that does its steps when it is woken."""

    def __init__(self, request: Request, steps: Steps) -> None:
        self._request = request
        self._steps = steps

    def wake(self) -> None:
        """Go on."""
        self._request.step(self._steps)


async def test_long_requests_that_a_callback_wakes_wait_for_the_next_turn(world: World) -> None:
    """One that does not take long by itself would hold the loop for one slice more than it should, or several."""
    parked: list[Parked] = []

    def work(request: Request) -> Steps:
        for _ in range(SLICE_MS - 1):
            world.loop.now_ns += MS
            yield
        request.reply_parts((b"",))

    def handler(broker: Broker, request: Request) -> None:
        parked.append(Parked(request, work(request)))
        if len(parked) == 3:
            for each in parked:
                broker.fetching.woken.wake(each)

    serve(world, handler)
    clients = [await world.client() for _ in range(3)]
    for client, correlation_id in [(client, client.send(KEY, VERSION)) for client in clients]:
        await answered(client, correlation_id)
    holds = world.broker().dispatcher.holds

    assert SLICE_MS <= holds.longest_ms <= SLICE_MS + 1


async def test_many_requests_of_one_read_are_handled_in_slices(world: World) -> None:
    """None of them takes long; one connection that sends hundreds at once still lets others be served."""

    def handler(_broker: Broker, request: Request) -> None:
        world.loop.now_ns += MS
        request.reply_parts((b"",))

    serve(world, handler)
    client = await world.client()
    client.transport.write(b"".join(client.frame(KEY, VERSION) for _ in range(100)))
    for number in range(100):
        await answered(client, number)

    assert world.broker().dispatcher.holds.longest_ms == SLICE_MS


@pytest.mark.parametrize(("listener", "at_once"), [("client", 2), ("internal", SLICE_MS)])
async def test_connections_with_many_requests_share_one_slice(world: World, listener: str, at_once: int) -> None:
    """A turn of the loop does not last forty slices if forty connections send much; another broker has its own."""
    handled: list[int] = []
    turns_ms: list[int] = []

    def handler(_broker: Broker, request: Request) -> None:
        world.loop.now_ns += MS
        handled.append(request.correlation_id)
        request.reply_parts((b"",))

    def receive(connection: Connection, data: bytes) -> None:
        connection.get_buffer(-1)[: len(data)] = data
        connection.buffer_updated(len(data))

    def note_turn() -> None:
        turns_ms.append(world.loop.now_ns // MS)
        if len(handled) < 41 * 20:
            world.loop.call_soon(note_turn)

    serve(world, handler)
    clients = [await world.client() for _ in range(40)]
    clients.append(await (world.client() if listener == "client" else world.peer()))
    # In order of their arrival.
    connections = list(world.broker().dispatcher.connections)[-41:]
    for client, connection in zip(clients, connections, strict=True):
        before = len(handled)
        world.call(1, receive, connection, b"".join(client.frame(KEY, VERSION) for _ in range(20)))
    world.loop.call_soon(note_turn)
    assert [connection.listener for connection in connections] == ["client"] * 40 + [listener]
    assert handled[before:] == list(range(at_once))
    for client in clients:
        await answered(client, 19)
    longest_ms = max(end_ms - start_ms for start_ms, end_ms in pairwise(turns_ms))

    assert SLICE_MS <= longest_ms <= SLICE_MS + 1
    assert [list(client.answers) for client in clients] == [list(range(20))] * len(clients)


async def test_steps_end_with_their_connection(world: World) -> None:
    """No client waits for the answer any more; the generator is closed."""
    closed: list[bool] = []

    def handler(_broker: Broker, _request: Request) -> Steps:
        try:
            while True:
                yield
        finally:
            closed.append(True)

    serve(world, handler)
    client = await world.client()
    client.send(KEY, VERSION)
    await world.until(lambda: world.broker().dispatcher.counts.get(request_kind(KEY, 0, "client")))
    world.call(1, world.connections()[0].close, "test")
    await client.lost()

    assert closed == [True]


async def test_failure_in_a_step_ends_one_connection_only(world: World) -> None:
    """An exception is our bug: it is logged, and other requests go on."""

    def handler(_broker: Broker, _request: Request) -> Steps:
        for _ in range(LONG):
            yield
        raise ValueError("planned")

    serve(world, handler)
    client, other = await world.client(), await world.client()
    client.send(KEY, VERSION)
    await client.lost()
    await answered(other, other.send(ApiKey.API_VERSIONS, 0))

    assert ["planned" in text for text in world.errors.take()] == [True]


async def test_other_brokers_requests_go_on_beside_a_long_one(world: World) -> None:
    """A heartbeat that waited for a forwarded request would cost a broker its session; answers come out of turn."""

    def handler(_broker: Broker, request: Request) -> Steps:
        body = request.body
        for _ in range(LONG):
            yield
        request.reply_parts((bytes(body[request.position :]),))

    serve(world, handler)
    peer = await world.peer()
    long = peer.send(KEY, VERSION, b"long")
    short = peer.send(ApiKey.API_VERSIONS, 0)
    body = await peer.body(long)

    assert (body, list(peer.answers)) == (b"long", [short, long])


async def test_answers_behind_a_parked_request_leave_when_it_goes_on_in_steps(world: World) -> None:
    """Its own answer then comes out of turn, so that nothing else would send them, nor any that follow."""
    parked: list[Request] = []

    def handler(_broker: Broker, request: Request) -> None:
        parked.append(request)

    def steps() -> Steps:
        for _ in range(LONG):
            yield
        parked[0].reply_parts((b"long",))

    serve(world, handler)
    peer = await world.peer()
    first, second = peer.send(KEY, VERSION), peer.send(ApiKey.API_VERSIONS, 0)
    await world.later(0.1)
    assert not peer.answers
    parked[0].step(steps())
    await peer.body(second)
    await peer.body(peer.send(ApiKey.API_VERSIONS, 0))

    assert await peer.body(first) == b"long"


async def test_stop_drops_unfinished_requests(world: World) -> None:
    """A stopping broker closes the connection instead of answering."""

    def handler(_broker: Broker, _request: Request) -> Steps:
        while True:
            yield

    serve(world, handler)
    client = await world.client()
    client.send(KEY, VERSION)
    await world.until(lambda: world.broker().dispatcher.counts.get(request_kind(KEY, 0, "client")))
    world.call(1, world.broker().dispatcher.close_all)

    with pytest.raises(ConnectionError):
        await asyncio.wait_for(client.body(0), 5)


class Item:
    """What a request names, of which can be seen whether it exists."""


@pytest.mark.parametrize("is_later", [False, True], ids=["answered in its steps", "answered after its steps"])
async def test_items_of_a_long_request_are_freed_some_at_a_time(world: World, *, is_later: bool) -> None:
    """After its answer; a hundred thousand that go at once hold the loop for fifty milliseconds."""
    items = [Item() for _ in range(3 * FREED_PER_TURN + 1)]
    living = [weakref.ref(item) for item in items]
    left: list[int] = []
    loop = world.loop

    def look() -> None:
        left.append(sum(ref() is not None for ref in living))
        if left[-1]:
            loop.call_soon(look)

    def handler(_broker: Broker, request: Request) -> Steps:
        yield
        request.named = items[:]
        items.clear()
        if is_later:
            loop.call_later(0.01, request.reply_parts, (b"",))
        else:
            request.reply_parts((b"",))
        loop.call_soon(look)

    serve(world, handler)
    client = await world.client()
    await answered(client, client.send(KEY, VERSION))
    await world.until(lambda: left and not left[-1])

    assert max(before - after for before, after in pairwise(left)) <= FREED_PER_TURN
    assert len(left) >= 4


async def test_handler_can_free_what_it_needs_no_longer(world: World) -> None:
    """Guards: a request that waits for the controller kept what it named, and lost it in one go with its answer."""
    items = [Item() for _ in range(3 * FREED_PER_STEP + 1)]
    living = [weakref.ref(item) for item in items]
    left: list[int] = []

    def handler(_broker: Broker, request: Request) -> Steps:
        request.named = items[:]
        items.clear()
        for _ in request.free_named():
            left.append(sum(ref() is not None for ref in living))
            yield
        request.reply_parts((b"",))

    serve(world, handler)
    client = await world.client()
    await answered(client, client.send(KEY, VERSION))

    assert left == [2 * FREED_PER_STEP + 1, FREED_PER_STEP + 1, 1, 0]
