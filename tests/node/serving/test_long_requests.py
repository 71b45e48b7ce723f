"""Long requests in line: how many are served side by side, who waits, and who does not."""

import pytest

from syncline.node.broker import Broker
from syncline.node.serving.long_requests import FETCH_GROWTH, GROWTH, SHARE
from syncline.node.serving.request import DECODED_AT_ONCE_BYTES, Request, Steps
from syncline.node.serving.stepping import STEPS_PER_SLICE
from syncline.wire.api import ApiKey
from tests.node.wire_client import WireClient, at
from tests.node.world import World

# A request whose body the handlers of these tests do not read.
KEY, VERSION = ApiKey.LIST_GROUPS, 0
LONG_BYTES = 2 * DECODED_AT_ONCE_BYTES
AT_ONCE = 3
LIMIT_BYTES = SHARE * GROWTH * LONG_BYTES * AT_ONCE
small_memory = pytest.mark.brokers(1, queued_max_request_bytes=LIMIT_BYTES, socket_request_max_bytes=LIMIT_BYTES)
CLIENTS = 10
# A fetch of so many partitions, of 33 bytes each, takes about so much.
FETCHED = 6_000
FETCHED_BYTES = FETCHED * 33 * FETCH_GROWTH


class Served:
    """A handler of ListGroups that takes several slices, and notes which requests it works on side by side."""

    def __init__(self, world: World) -> None:
        self.now: dict[int, None] = {}
        self.most = 0
        self.begun: list[int] = []
        world.broker().dispatcher.handlers.replace(KEY, self.handle)

    def handle(self, _broker: Broker, request: Request) -> Steps:
        """Work."""
        number = request.body[request.position]
        self.begun.append(number)
        self.now[number] = None
        self.most = max(self.most, len(self.now))
        try:
            for _ in range(2 * STEPS_PER_SLICE):
                yield
        finally:
            del self.now[number]
        request.reply_parts((bytes([number]),))


def send_all(clients: list[WireClient], size_bytes: int = LONG_BYTES) -> list[int]:
    """Have each client send a request of that size, with its number."""
    return [client.send(KEY, VERSION, bytes([number]) * size_bytes) for number, client in enumerate(clients)]


@small_memory
async def test_long_requests_are_served_as_far_as_there_is_room(world: World) -> None:
    """In the order of their arrival; the others are answered after them."""
    served = Served(world)
    clients = [await world.client() for _ in range(CLIENTS)]
    sent = send_all(clients)
    bodies = [await client.body(number) for client, number in zip(clients, sent, strict=True)]

    assert (served.most, served.begun) == (AT_ONCE, list(range(CLIENTS)))
    assert bodies == [bytes([number]) for number in range(CLIENTS)]
    assert [each.holding.waiting_bytes for each in world.connections()] == [0] * CLIENTS


async def test_who_is_interested_hears_before_each_long_request(world: World) -> None:
    """The process gets the memory for its objects from elsewhere (`local.bursts`); short requests make few."""
    Served(world)
    heard: list[None] = []
    world.node().before_long_requests(lambda: heard.append(None))
    client = await world.client()
    counts = []
    for size_bytes in (LONG_BYTES, 1, LONG_BYTES):
        await client.body(client.send(KEY, VERSION, bytes([1]) * size_bytes))
        counts.append(len(heard))

    assert counts == [1, 1, 2]


@small_memory
async def test_long_request_is_served_alone_if_it_never_has_room(world: World) -> None:
    """Larger than the share of all of them together."""
    served = Served(world)
    clients = [await world.client() for _ in range(3)]
    sent = send_all(clients, LONG_BYTES * (AT_ONCE + 1))
    for client, number in zip(clients, sent, strict=True):
        await client.body(number)

    assert (served.most, served.begun) == (1, [0, 1, 2])


@small_memory
async def test_line_goes_on_after_requests_of_one_connection_that_were_worked_on_side_by_side(world: World) -> None:
    """A short fetch was parked, and is answered in steps while the long request behind it is served."""
    parked: list[Request] = []

    def handler(_broker: Broker, request: Request) -> Steps | None:
        if not request.correlation_id:
            parked.append(request)
            return None
        return work(request)

    def work(request: Request) -> Steps:
        for step in range(4 * STEPS_PER_SLICE):
            if request.correlation_id == 1 and step == STEPS_PER_SLICE + 1:
                request.connection.step(parked[0], answering(parked[0]))
            yield
        request.reply_parts((b"",))

    def answering(request: Request) -> Steps:
        for _ in range(STEPS_PER_SLICE):
            yield
        request.reply_parts((b"",))

    world.broker().dispatcher.handlers.replace(KEY, handler)
    client = await world.client()
    sent = [client.send(KEY, VERSION), client.send(KEY, VERSION, bytes(LONG_BYTES))]
    for number in sent:
        await client.body(number)
    line = world.broker().dispatcher.long_requests

    assert (line.served_bytes, len(line)) == (0, 0)
    assert world.connections()[0].holding.waiting_bytes == 0


@small_memory
async def test_short_requests_do_not_stand_in_line(world: World) -> None:
    """They take little, and most clients send no others."""
    served = Served(world)
    clients = [await world.client() for _ in range(CLIENTS)]
    sent = send_all(clients, DECODED_AT_ONCE_BYTES)
    for client, number in zip(clients, sent, strict=True):
        await client.body(number)

    assert served.most == CLIENTS


@small_memory
async def test_other_brokers_do_not_stand_in_line(world: World) -> None:
    """Their requests must not wait for clients."""
    served = Served(world)
    clients = [await world.client() for _ in range(AT_ONCE)] + [await world.peer() for _ in range(2)]
    sent = send_all(clients)
    for client, number in zip(clients, sent, strict=True):
        await client.body(number)

    assert served.most == len(clients)


@small_memory
@pytest.mark.parametrize("left", [range(AT_ONCE), range(AT_ONCE, CLIENTS - 1)], ids=["served", "in line"])
async def test_clients_that_leave_make_room(world: World, left: range) -> None:
    """Those whose requests are served and not answered yet, and those in line."""
    requests: list[Request] = []

    def handler(_broker: Broker, request: Request) -> Steps:
        requests.append(request)
        yield

    world.broker().dispatcher.handlers.replace(KEY, handler)
    clients = [await world.client() for _ in range(CLIENTS)]
    send_all(clients)
    await world.later(1)
    begun_count = len(requests)
    for number in left:
        clients[number].transport.abort()
    await world.later(1)
    answered_count = 0
    while waiting := [request for request in requests if not request.is_done and request.connection.transport]:
        answered_count += len(waiting)
        for request in waiting:
            world.call(1, request.reply_parts, (b"",))
        await world.later(1)

    assert begun_count == AT_ONCE
    assert answered_count == CLIENTS - len(left)
    assert world.broker().dispatcher.long_requests.served_bytes == 0


@small_memory
async def test_parked_request_lets_others_go_on(world: World) -> None:
    """A client decides how long it waits: then what it keeps is counted for it alone."""
    kept_bytes = 1_000

    def handler(_broker: Broker, request: Request) -> Steps:
        yield
        parked.append(request)
        request.park(kept_bytes)

    parked: list[Request] = []
    world.broker().dispatcher.handlers.replace(KEY, handler)
    clients = [await world.client() for _ in range(CLIENTS)]
    sent = send_all(clients)
    await world.until(lambda: len(parked) == CLIENTS)
    counts = [each.holding.kept_bytes for each in world.connections()]
    for request in parked:
        world.call(1, request.reply_parts, (b"",))
    for client, number in zip(clients, sent, strict=True):
        await client.body(number)

    assert counts == [kept_bytes] * CLIENTS
    assert [each.holding.kept_bytes for each in world.connections()] == [0] * CLIENTS


@pytest.mark.brokers(1, queued_max_request_bytes=SHARE * FETCHED_BYTES * 5 // 2, socket_request_max_bytes=LIMIT_BYTES)
async def test_long_fetches_stand_in_line_until_they_park(world: World) -> None:
    """With what they become: each of their partitions takes a kilobyte while it is looked at."""
    await world.topic()
    counts: list[int] = []
    line, handlers = world.broker().dispatcher.long_requests, world.broker().dispatcher.handlers
    serve = handlers.get(ApiKey.FETCH)
    assert serve is not None

    def handler(broker: Broker, request: Request) -> Steps | None:
        world.loop.call_soon(note)
        return serve(broker, request)

    def note() -> None:
        counts.append(line.served_bytes // FETCHED_BYTES)
        if counts[-1]:
            world.loop.call_soon(note)

    handlers.replace(ApiKey.FETCH, handler)
    clients = [await world.client() for _ in range(5)]
    topics = {"t": [at(0, partition=index) for index in range(FETCHED)]}
    sent = [client.send_fetch(topics, max_wait_ms=5_000) for client in clients]
    await world.later(1)
    parked_bytes = line.served_bytes
    for client, number in zip(clients, sent, strict=True):
        await client.fetched(number)

    assert max(counts) == 2
    assert parked_bytes == 0
