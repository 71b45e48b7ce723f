"""Answers with which other implementations of the protocol broke clients."""

import datetime as dt
import struct

import pytest

from syncline.local.profiles import PROFILES
from syncline.model.errors import ErrorCode
from syncline.records.batch import reseal
from syncline.wire.api import ApiKey
from tests.node.wire_client import WireClient, batch
from tests.node.world import World

TEST_PROFILE = {name.replace(".", "_"): value for name, value in PROFILES["test"].items()}
# The default of transaction.max.timeout.ms.
TIMEOUT_MAX_MS = 900_000


@pytest.mark.parametrize("version", [5, 6, 7])
async def test_created_topic_comes_with_its_configs_when_the_version_tells_them(world: World, version: int) -> None:
    """Java's admin client treats a null list as its own bug."""
    client = await world.client()
    topic = {"name": "t", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}

    created = (await client.ask(ApiKey.CREATE_TOPICS, version, topics=[topic], timeout=seconds(10))).topics[0]

    assert created.error_code == ErrorCode.NONE
    assert "cleanup.policy" in {each.name for each in created.configs}


@pytest.mark.parametrize(
    ("timeout_ms", "error"),
    [
        (TIMEOUT_MAX_MS + 1, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        (0, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        (TIMEOUT_MAX_MS, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
    ],
)
async def test_transaction_timeout_is_refused_when_it_is_longer_than_allowed(
    world: World, timeout_ms: int, error: ErrorCode
) -> None:
    """One that is allowed leads to the next refusal: there are no transactions."""
    client = await world.client()

    answer = await client.ask(
        ApiKey.INIT_PRODUCER_ID, 1, transactional_id="t", transaction_timeout=seconds(timeout_ms / 1000)
    )

    assert (answer.error_code, answer.producer_id) == (error, -1)


@pytest.mark.parametrize("version", [0, 1])
async def test_handshake_is_refused_in_words_when_a_client_is_configured_for_sasl(world: World, version: int) -> None:
    """Java's clients connect again for ever, without a word to their user, when the connection is closed instead."""
    client = await world.client()

    handshake = await client.ask(ApiKey.SASL_HANDSHAKE, version, mechanism="PLAIN")
    token = await client.ask(ApiKey.SASL_AUTHENTICATE, version, auth_bytes=b"\0user\0secret")

    assert (handshake.error_code, handshake.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, ())
    assert token.error_code == ErrorCode.ILLEGAL_SASL_STATE


@pytest.mark.brokers(1, **TEST_PROFILE, auto_create_topics_enable="true", default_replication_factor=1)
async def test_topic_is_created_with_four_partitions_when_metadata_asks_for_it(world: World) -> None:
    """The profile `test` is what the suites of librdkafka and kafka-python take for granted."""
    client = await world.client()

    assert await partitions(client, "t", may_create=False) == 0
    await partitions(client, "t", may_create=True)
    while not (count := await partitions(client, "t", may_create=False)):
        pass

    assert count == 4


async def partitions(client: WireClient, topic: str, *, may_create: bool) -> int:
    """Return how many partitions Metadata shows of a topic."""
    answer = await client.ask(
        ApiKey.METADATA,
        8,
        topics=[{"name": topic}],
        allow_auto_topic_creation=may_create,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )
    return len(answer.topics[0].partitions)


def seconds(count: float) -> dt.timedelta:
    """Return a time as requests carry it."""
    return dt.timedelta(seconds=count)


@pytest.mark.parametrize("error", [1, -1], ids=["more than there are", "fewer than there are"])
async def test_batch_whose_count_contradicts_its_records_is_not_stored(world: World, error: int) -> None:
    """Consumers would stop at it for ever, or never see the record behind the count; the next offset stays free."""
    await world.topic()
    client = await world.client()
    wrong = bytearray(batch(3))
    struct.pack_into(">i", wrong, 23, 2 + error)
    struct.pack_into(">i", wrong, 57, 3 + error)
    reseal(wrong, 0, len(wrong))

    refused = await client.produce("t", bytes(wrong))
    assert (refused.error_code, refused.log_start_offset) == (ErrorCode.INVALID_RECORD, 0)
    assert "contradict its header" in str(refused.error_message)
    assert (await client.produce("t", batch(3))).base_offset == 0
