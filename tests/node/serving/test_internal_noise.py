"""Malformed messages at the internal listener: each ends its own connection, and leaves one line in the log."""

import logging
import random
from collections.abc import Iterator
from uuid import UUID

import pytest

from syncline.model.ids import BrokerEpoch, BrokerId
from syncline.node.controller.private_messages import Poll, encode_forward, encode_poll, encode_stop
from syncline.wire.api import INTERNAL_VERSIONS, ApiKey
from syncline.wire.codec import encode_request, request_type
from syncline.wire.entities import build
from tests.node.wire_client import WireClient
from tests.node.world import World

# Allocations of producer ids come inside FORWARD only.
INSIDE_FORWARD = {ApiKey.ALLOCATE_PRODUCER_IDS}
ROUNDS = 25


class Lines(logging.Handler):
    """The lines that brokers logged."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.found: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the line."""
        self.found.append(record)


@pytest.fixture
def lines() -> Iterator[Lines]:
    """What brokers log during the test."""
    handler = Lines()
    logger = logging.getLogger("syncline")
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


async def replied(world: World, client: WireClient, key: int, version: int, body: bytes) -> bool:
    """Return whether the broker answered; False if it closed the connection. A request may also wait for ever."""
    correlation_id = client.send(key, version, body)
    await world.later(0.05)
    return correlation_id in client.answers


PRIVATE = {
    ApiKey.METADATA_DELTAS: encode_poll(Poll(BrokerId(1), BrokerEpoch(5), 0)),
    ApiKey.FORWARD: encode_forward(ApiKey.CREATE_TOPICS, 5, BrokerId(1)),
    ApiKey.PEER_BEAT: (1).to_bytes(4),
    ApiKey.STOP_TOGETHER: encode_stop(BrokerId(1), BrokerEpoch(5)),
}


@pytest.mark.parametrize("key", PRIVATE, ids=lambda key: key.name.lower())
async def test_private_message_of_a_wrong_length_closes_its_connection(world: World, lines: Lines, key: ApiKey) -> None:
    """With one line that says what was wrong, and no traceback."""
    whole = PRIVATE[key]
    wrong = [whole[:size] for size in range(len(whole))]
    if key is not ApiKey.FORWARD:
        # Any body may follow the head of a forwarded request.
        wrong += [whole + b"\0", whole * 100]
    for body in wrong:
        peer = await world.peer()
        lines.found.clear()
        peer.send(key, 0, body)
        await peer.lost()

        (line,) = lines.found
        assert (line.levelname, line.exc_info) == ("INFO", None)
        assert f"malformed request, API key {int(key)} version 0: " in line.getMessage()


@pytest.mark.parametrize("key", sorted(INTERNAL_VERSIONS.keys() - INSIDE_FORWARD), ids=lambda key: key.name.lower())
async def test_noise_is_answered_or_closes_its_connection(world: World, lines: Lines, key: ApiKey) -> None:
    """Random bytes, and messages that were cut or changed, in each version; the broker serves on."""
    await world.topic()
    rng = random.Random(int(key))
    for number in range(ROUNDS):
        version = rng.randint(*INTERNAL_VERSIONS[key])
        whole = sample(key, version)
        body = bytearray(whole[: rng.randrange(len(whole) + 1)] if number % 2 else whole)
        for _ in range(rng.randrange(4)):
            if body:
                body[rng.randrange(len(body))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        if number % 3 == 0:
            body += rng.randbytes(rng.randrange(60))
        if number % 5 == 0:
            body[:] = rng.randbytes(rng.randrange(60))
        client = await world.peer()
        lines.found.clear()
        await replied(world, client, key, version, bytes(body))
        mine = [line for line in lines.found if "closing the connection" in line.getMessage()]
        assert len(mine) == client.is_lost, (version, bytes(body).hex())
        assert not any(line.exc_info for line in lines.found), (version, bytes(body).hex())
        client.transport.close()

    peer = await world.peer()
    assert await replied(world, peer, ApiKey.API_VERSIONS, 0, b"")


def sample(key: ApiKey, version: int) -> bytes:
    """Return a message that is not malformed, as far as that needs no thought; noise otherwise."""
    if key in PRIVATE:
        return PRIVATE[key] + (encode_request(_entity(ApiKey.CREATE_TOPICS, 5)) if key is ApiKey.FORWARD else b"")
    if key is ApiKey.CONTROL:
        return b'{"verb": "broker.describe", "secret": "open sesame"}'
    return encode_request(_entity(key, version)) if key in SAMPLES else random.Random(version).randbytes(30)


SAMPLES = {
    ApiKey.CREATE_TOPICS: {
        "topics": [
            {"name": "u", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []},
        ],
        "timeout": 1_000,
        "validate_only": False,
    },
    ApiKey.ALTER_PARTITION: {
        "broker_id": 1,
        "broker_epoch": 1,
        "topics": [
            {
                "topic_id": UUID(int=1),
                "partitions": [
                    {
                        "partition_index": 0,
                        "leader_epoch": 0,
                        "new_isr": [1],
                        "new_isr_with_epochs": [{"broker_id": 1, "broker_epoch": 1}],
                        "leader_recovery_state": 0,
                        "partition_epoch": 0,
                    }
                ],
            }
        ],
    },
    ApiKey.BROKER_REGISTRATION: {
        "broker_id": 1,
        "cluster_id": "c",
        "incarnation_id": UUID(int=5),
        "listeners": [{"name": "CLIENT", "host": "h", "port": 1, "security_protocol": 0}],
        "features": [{"name": "f", "min_supported_version": 0, "max_supported_version": 1}],
        "rack": "r",
    },
    ApiKey.BROKER_HEARTBEAT: {
        "broker_id": 1,
        "broker_epoch": 1,
        "current_metadata_offset": 1,
        "want_fence": False,
        "want_shut_down": False,
        "offline_log_dirs": [UUID(int=7)],
    },
}


def _entity(key: ApiKey, version: int) -> object:
    return build(request_type(key, version), SAMPLES[key])
