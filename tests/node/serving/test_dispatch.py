"""Dispatch: which connection may send which request, and that a failure affects only its own connection."""

import errno
import struct
from typing import Any

import pytest

from syncline.model.errors import ErrorCode
from syncline.node import handlers
from syncline.node.channel import isr_proposals
from syncline.wire.api import ApiKey
from syncline.wire.codec import decode_response, response_type
from tests.node.wire_client import WireClient, at, batch, offsets
from tests.node.world import World


async def is_refused(world: World, client: WireClient, key: int, version: int, body: bytes = b"") -> bool:
    """Return whether a request ends its connection, unanswered, and no other connection."""
    other = await world.client()
    # Without a client id, and where the version knows them, without tagged fields.
    frame = struct.pack(">hhihB", key, version, 0, -1, 0) + body
    client.transport.write(struct.pack(">i", len(frame)) + frame)
    await client.lost()
    await other.body(other.send(ApiKey.API_VERSIONS, 0))
    return not client.answers


@pytest.mark.parametrize("key", [4, 71, 999, -1])
async def test_dispatch_closes_the_connection_when_nobody_serves_the_key(world: World, key: int) -> None:
    """No answer exists that such a client could read."""
    client = await world.client()

    assert await is_refused(world, client, key, 0)


@pytest.mark.parametrize(
    ("key", "version"),
    [
        pytest.param(ApiKey.METADATA, 99, id="newer-than-any"),
        pytest.param(ApiKey.PRODUCE, 2, id="advertised-but-not-served"),
        pytest.param(ApiKey.FETCH, 3, id="older-than-any"),
        pytest.param(ApiKey.METADATA, -1, id="negative"),
    ],
)
async def test_dispatch_closes_the_connection_when_the_version_is_not_served(
    world: World, key: int, version: int
) -> None:
    """As in Kafka: a client that requested the versions knows which to use."""
    client = await world.client()

    assert await is_refused(world, client, key, version)


async def test_dispatch_answers_api_versions_when_its_version_is_unknown(world: World) -> None:
    """The one request that is answered in any version: in version 0, with the supported versions (KIP-511)."""
    client = await world.client()
    body = await client.body(client.send(ApiKey.API_VERSIONS, 77))
    answer = decode_response(ApiKey.API_VERSIONS, 0, body)

    assert int(answer.error_code) == ErrorCode.UNSUPPORTED_VERSION
    assert ApiKey.API_VERSIONS in [each.api_key for each in answer.api_keys]


@pytest.mark.parametrize(
    ("key", "version"),
    [
        (ApiKey.ALTER_PARTITION, 3),
        (ApiKey.BROKER_REGISTRATION, 4),
        (ApiKey.BROKER_HEARTBEAT, 1),
        (ApiKey.METADATA_DELTAS, 0),
        (ApiKey.FORWARD, 0),
    ],
)
async def test_dispatch_refuses_what_brokers_ask_each_other_when_a_client_asks_it(
    world: World, key: ApiKey, version: int
) -> None:
    """A client cannot act as a broker, however well-formed its request is: only the inter-broker listener serves it."""
    client = await world.client()

    assert await is_refused(world, client, key, version, bytes(64))


async def test_dispatch_closes_the_connection_when_a_body_is_malformed(world: World) -> None:
    """A request that ends too early is not answered, and nothing of it is carried out."""
    await world.topic()
    whole, client = await world.client(), await world.client()
    frame = whole.frame(ApiKey.PRODUCE, 9, b"\x00\xff\xff\x00\x00\x00\x00\x02\x02t")
    client.transport.write(frame)
    await client.lost()

    assert client.answers == {}
    assert world.partition().log.log_end == 0


async def test_dispatch_survives_when_a_handler_fails(world: World) -> None:
    """A bug is logged and costs one connection; all others are served."""
    bad, good = await world.client(), await world.client()

    def fail(*_arguments: Any) -> None:
        raise ZeroDivisionError("planted")

    world.broker().dispatcher.handlers.replace(ApiKey.LIST_GROUPS, fail)
    bad.send(ApiKey.LIST_GROUPS, 0)
    await bad.lost()
    answer = await good.body(good.send(ApiKey.API_VERSIONS, 0))
    logged = world.errors.take()

    assert answer
    assert bad.answers == {}
    assert [f"request failed: API key {ApiKey.LIST_GROUPS} version 0: ZeroDivisionError('planted')"] == logged


async def test_dispatch_wakes_parked_fetches_once_when_the_callback_ends(world: World) -> None:
    """Two produce requests in one read are one answer to the fetch that waited for them."""
    await world.topic()
    reader, writer = await world.client(), await world.client()
    parked = reader.send_fetch({"t": [at(0)]}, max_wait_ms=30_000)
    await world.until(lambda: len(world.broker().fetching.deadlines) == 1)
    for _ in range(2):
        writer.send_produce("t", batch(), acks=1)
    row = await reader.fetched_row(parked)

    assert offsets(row.records) == [0, 1]


async def test_request_whose_code_cannot_be_imported_is_served_later(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards: without descriptors the first request of its kind ended its connection as a bug of ours would."""

    def refused(name: str) -> None:
        raise OSError(errno.EMFILE, "Too many open files", name)

    with monkeypatch.context() as patch:
        patch.setattr(handlers, "import_module", refused)
        # A fresh table, as at the start of a broker: others have been asked for this in the same process.
        monkeypatch.setattr(world.broker().dispatcher, "handlers", handlers.Handlers())
        client = await world.client()
        client.send(ApiKey.DESCRIBE_CLUSTER, 0)
        await client.lost()
    answer = await (await world.client()).ask(ApiKey.DESCRIBE_CLUSTER, 0, include_cluster_authorized_operations=False)

    assert int(answer.error_code) == ErrorCode.NONE
    assert not client.answers
    assert any("cannot be served now" in each for each in world.errors.warnings)


@pytest.mark.brokers(2)
async def test_isr_is_proposed_again_when_the_schema_could_not_be_imported(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards: a leader without descriptors at its first proposal proposed nothing any more."""
    await world.topic(replicas=(1, 2))
    world.kill(2)
    await world.until(lambda: world.broker(1).image.partition("t", 0).isr == (1,))
    refused = [OSError(errno.EMFILE, "Too many open files")]

    def refused_once(key: int, version: int) -> object:
        if refused:
            raise refused.pop()
        return response_type(key, version)

    monkeypatch.setattr(isr_proposals, "response_type", refused_once, raising=False)
    await world.start(2)
    await world.until(lambda: len(world.broker(1).image.partition("t", 0).isr) == 2)

    assert refused == []
