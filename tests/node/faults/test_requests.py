"""Requests under a fault: their answers at the client, and their effects in the log."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from syncline.model.errors import ErrorCode
from syncline.node.control.verbs import ControlRefused
from syncline.node.faults import verbs
from syncline.records.builder import BatchBuilder
from syncline.virtual.cluster import CONTROL_SECRET
from syncline.wire.api import ApiKey
from tests.node.wire_client import WireClient, at
from tests.node.world import World

faulty = pytest.mark.brokers(1, fault_injection_enable="true")
faulty_three = pytest.mark.brokers(3, fault_injection_enable="true")


def batch(value: bytes = b"x", **producer: Any) -> bytes:
    """Return a batch of one record."""
    builder = BatchBuilder(**producer)
    builder.append(0, None, value)
    return bytes(builder.build())


async def add(world: World, kind: str, broker_id: int = 1, **fields: Any) -> None:
    """Begin a fault."""
    await world.as_broker(
        broker_id, verbs.add(world.broker(broker_id), {"id": fields.pop("id", "f1"), "kind": kind, **fields})
    )


def hits(world: World, broker_id: int = 1) -> dict[str, int]:
    """Return how often each fault struck."""
    return {row["id"]: row["hits"] for row in verbs.show(world.broker(broker_id), {})["faults"]}


def clear(world: World, broker_id: int = 1) -> None:
    """End all faults."""
    world.call(broker_id, verbs.clear, world.broker(broker_id), {})


async def closes(client: WireClient, begin: Callable[[], int]) -> bool:
    """Return whether a request's connection is closed instead of an answer."""
    try:
        await client.body(begin())
    except ConnectionError:
        return True
    return False


@faulty
async def test_reply_is_lost_and_what_was_asked_is_done(world: World) -> None:
    """api-drop-reply: the records are in the log, the connection ends without an answer, once."""
    await world.topic()
    client = await world.client()
    await add(world, "api-drop-reply", apis=["PRODUCE"], trigger="once")

    assert await closes(client, lambda: client.send_produce("t", batch()))
    assert world.partition().log.log_end == 1

    again = await world.client()
    assert (await again.produce("t", batch())).error_code == 0
    assert world.partition().log.log_end == 2
    assert hits(world) == {"f1": 1}


@faulty
async def test_reply_is_lost_in_its_turn(world: World) -> None:
    """Answers to earlier requests on the same connection still arrive."""
    await world.topic()
    client = await world.client()
    await add(world, "api-drop-reply", apis=["LIST_GROUPS"])
    parked = client.send_fetch({"t": [at(0)]}, max_wait_ms=500)
    listed = client.send(ApiKey.LIST_GROUPS, 0)

    assert (await client.fetched_row(parked)).error_code == 0
    with pytest.raises(ConnectionError):
        await client.body(listed)


@faulty
async def test_idempotent_retry_after_a_lost_reply_writes_nothing_twice(world: World) -> None:
    """The producer sends the same batch again and gets its old offset."""
    await world.topic()
    await add(world, "api-drop-reply", apis=["PRODUCE"], trigger="once")
    records = batch(producer_id=7, producer_epoch=0, base_sequence=0)
    client = await world.client()
    assert await closes(client, lambda: client.send_produce("t", records))

    again = await (await world.client()).produce("t", records)

    assert (again.error_code, again.base_offset, world.partition().log.log_end) == (0, 0, 1)


@faulty
async def test_error_is_answered_and_nothing_is_done(world: World) -> None:
    """api-error: the requested code, for the requested partition, as often as requested."""
    await world.topic(partitions=2)
    client = await world.client()
    await add(
        world, "api-error", apis=["PRODUCE"], error="REQUEST_TIMED_OUT", topic="t", partition=1, trigger="times=2"
    )
    codes = [(await client.produce("t", batch(), partition=partition)).error_code for partition in (1, 0, 1, 1)]

    assert codes == [ErrorCode.REQUEST_TIMED_OUT, 0, ErrorCode.REQUEST_TIMED_OUT, 0]
    assert [world.partition(number=number).log.log_end for number in (0, 1)] == [1, 1]
    assert hits(world) == {"f1": 2}


@faulty
async def test_error_without_an_acknowledgement_is_silence(world: World) -> None:
    """With acks=0 the client expects no answer, and must not mistake the next one for it."""
    await world.topic()
    client = await world.client()
    await add(world, "api-error", apis=["PRODUCE"], error="REQUEST_TIMED_OUT", trigger="once")
    client.send_produce("t", batch(), acks=0)

    assert (await client.produce("t", batch())).error_code == 0
    assert world.partition().log.log_end == 1


@faulty
async def test_metadata_keeps_its_brokers_when_its_topics_are_errors(world: World) -> None:
    """A client that gets an empty list of brokers would forget the cluster."""
    await world.topic("a")
    await world.topic("b")
    client = await world.client()
    await add(world, "api-error", apis=["METADATA"], error="LEADER_NOT_AVAILABLE", topic="a")

    answer = await client.ask(
        ApiKey.METADATA, 4, topics=[{"name": "a"}, {"name": "b"}], allow_auto_topic_creation=False
    )

    assert len(answer.brokers) == 1
    assert {topic.name: int(topic.error_code) for topic in answer.topics} == {"a": 5, "b": 0}


@faulty
async def test_disconnect_leaves_the_request_undone(world: World) -> None:
    """api-disconnect: the connection ends, nothing was written; other clients are served."""
    await world.topic()
    await add(world, "api-disconnect", apis=["PRODUCE"], client_id="te?t", trigger="once")
    client = await world.client()

    assert await closes(client, lambda: client.send_produce("t", batch()))
    assert world.partition().log.log_end == 0
    assert hits(world) == {"f1": 1}


@faulty
async def test_throttle_holds_the_answer_back(world: World) -> None:
    """api-throttle: performed at once, answered late; a client with another id is answered at once."""
    await world.topic()
    client = await world.client()
    await add(world, "api-throttle", apis=["PRODUCE"], delay_ms=700)
    began_s = world.loop.time()
    sent = client.send_produce("t", batch())
    await world.later(0.05)

    assert world.partition().log.log_end == 1
    assert (await client.produced(sent)).error_code == 0
    assert 0.7 <= world.loop.time() - began_s <= 0.75
    clear(world)
    await add(world, "api-throttle", apis=["PRODUCE"], delay_ms=700, client_id="other")
    began_s = world.loop.time()
    await client.produce("t", batch())
    assert world.loop.time() - began_s < 0.1


@faulty
async def test_throttled_client_that_leaves_is_forgotten(world: World) -> None:
    """Its answer has no connection, and that is not an error."""
    await world.topic()
    client = await world.client()
    await add(world, "api-throttle", apis=["PRODUCE"], delay_ms=300)
    client.send_produce("t", batch())
    await world.later(0.05)
    client.transport.abort()
    await world.later(0.5)

    assert hits(world) == {"f1": 1}


@faulty
async def test_fetch_is_selected_by_the_partitions_of_its_session(world: World) -> None:
    """An incremental fetch names no partition; its session does."""
    await world.topic("a")
    await world.topic("b")
    client = await world.client()
    opened = await client.fetched(client.send_fetch({"a": [at(0)]}, session=(0, 0)))
    assert opened.session_id > 0
    await add(world, "api-error", apis=["FETCH"], error="UNKNOWN_SERVER_ERROR", topic="a")

    refused = await client.fetched(client.send_fetch({}, session=(opened.session_id, 1)))

    assert refused.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert (await client.fetch("b")).error_code == 0
    assert hits(world) == {"f1": 1}


@faulty
async def test_dispatch_is_the_plain_one_while_there_is_no_fault(world: World) -> None:
    """Requests pay nothing without faults: neither before one nor after it."""
    await world.topic()
    dispatcher = world.broker().dispatcher
    assert dispatcher.take_up == dispatcher.dispatch

    await add(world, "api-throttle", apis=["FETCH"], delay_ms=5)
    assert dispatcher.take_up != dispatcher.dispatch
    clear(world)

    assert dispatcher.take_up == dispatcher.dispatch


@faulty
async def test_fault_ends_by_itself_when_its_time_is_over(world: World) -> None:
    """It stays listed, with its counters, but has no effect."""
    await world.topic()
    client = await world.client()
    await add(world, "api-error", apis=["PRODUCE"], error="REQUEST_TIMED_OUT", duration_ms=300)
    assert (await client.produce("t", batch())).error_code == ErrorCode.REQUEST_TIMED_OUT
    await world.later(0.31)

    assert (await client.produce("t", batch())).error_code == 0
    (row,) = verbs.show(world.broker(), {})["faults"]
    assert (row["state"], row["over"], row["hits"]) == ("over", "its time is up", 1)


@faulty
async def test_fault_that_exists_already_is_refused(world: World) -> None:
    """An id names one fault; what is not there cannot be cleared."""
    await add(world, "api-disconnect", apis=["FETCH"])
    with pytest.raises(ControlRefused, match="fault f1 already exists"):
        await add(world, "api-disconnect", apis=["FETCH"])
    with pytest.raises(ControlRefused, match="has no fault 'f2'"):
        verbs.clear(world.broker(), {"id": "f2"})
    with pytest.raises(ControlRefused, match="disk cannot be made faulty"):
        await add(world, "disk-fail", id="f3")


async def test_broker_takes_no_faults_unless_injection_is_enabled(world: World) -> None:
    """A broker without fault injection cannot be broken over the network."""
    with pytest.raises(ControlRefused, match=r"Start it with --config fault\.injection\.enable=true"):
        await add(world, "api-disconnect", apis=["FETCH"])
    assert verbs.show(world.broker(), {}) == {"faults": []}
    assert verbs.clear(world.broker(), {}) == {"cleared": []}


@faulty
async def test_control_is_served_between_brokers_only_and_spared_by_faults(world: World) -> None:
    """Tools that inject faults must be able to end them; clients cannot inject any."""
    await add(world, "api-disconnect", client_id="*", listener="internal")
    peer = await world.peer()
    known = json.dumps({"secret": CONTROL_SECRET})[:-1].encode()
    answer = await peer.body(peer.send(ApiKey.CONTROL, 0, known + b',"verb":"faults.list"}'))
    assert b'"error":null' in answer
    for call, sentence in (
        (b"no", b"this one cannot be read"),
        (b"[]", b'a JSON object with a \\"verb\\"'),
        (known + b',"verb":"do.it"}', b"there is no verb 'do.it'. Known: "),
        (known + b',"verb":"faults.add","id":"f9","kind":"x"}', b"'kind' must be one of"),
    ):
        assert sentence in await peer.body(peer.send(ApiKey.CONTROL, 0, call))

    client = await world.client()
    client.send(ApiKey.CONTROL, 0, b'{"verb":"faults.list"}')
    async with asyncio.timeout(5):
        await client.lost()


@faulty
@pytest.mark.parametrize(
    ("secret", "sentence"),
    [
        pytest.param({}, b"carries no secret", id="none"),
        pytest.param({"secret": ""}, b"carries no secret", id="empty"),
        pytest.param({"secret": "x"}, b"carries a wrong secret", id="wrong"),
        pytest.param({"secret": CONTROL_SECRET + " "}, b"carries a wrong secret", id="longer"),
        pytest.param({"secret": "\u00e9"}, b"carries a wrong secret", id="not ASCII"),
        pytest.param({"secret": None}, b"carries no secret", id="null"),
        pytest.param({"secret": [CONTROL_SECRET]}, b"carries a wrong secret", id="list"),
    ],
)
async def test_fault_is_refused_to_a_caller_who_does_not_know_the_secret(
    world: World, secret: dict, sentence: bytes
) -> None:
    """Every user of the machine can connect to the internal port; only one can read the data directory."""
    peer = await world.peer()
    call = {"verb": "faults.add", "id": "f1", "kind": "api-disconnect", "apis": ["FETCH"], **secret}
    answer = await peer.body(peer.send(ApiKey.CONTROL, 0, json.dumps(call).encode()))

    assert sentence in answer
    assert b"with --data DIRECTORY" in answer
    assert verbs.show(world.broker(), {}) == {"faults": []}
    # With the secret, the same call is carried out.
    call["secret"] = CONTROL_SECRET
    assert b'"error":null' in await peer.body(peer.send(ApiKey.CONTROL, 0, json.dumps(call).encode()))


@faulty
async def test_answers_that_are_held_back_are_sent_when_the_fault_is_cleared(world: World) -> None:
    """Whatever their delay, and also after a spent rule, they leave at once; none is held."""
    await world.topic()
    client, other = await world.client(), await world.client()
    await add(world, "api-throttle", apis=["PRODUCE"], delay_ms=600_000, trigger="times=2")
    first, second = client.send_produce("t", batch()), other.send_produce("t", batch())
    await world.later(5)
    assert hits(world) == {"f1": 2}
    began_s = world.loop.time()

    clear(world)

    assert (await client.produced(first)).error_code == (await other.produced(second)).error_code == 0
    assert world.loop.time() - began_s < 0.1
    assert (await client.produce("t", batch())).error_code == 0
