"""What a broker says of itself: DescribeConfigs states facts, and a final error ends what is not offered."""

from typing import Any

import pytest

from syncline.model.errors import ErrorCode
from syncline.virtual.cluster import CLIENT_PORT, INTERNAL_PORT, LOG_DIRECTORY
from syncline.wire.api import ApiKey
from syncline.wire.codec import decode_response, encode_request, request_type
from syncline.wire.entities import build
from tests.node.wire_client import WireClient
from tests.node.world import World

BROKER, LOGGER, CLIENT_METRICS, GROUP = 4, 8, 16, 32
STATIC_BROKER, LOGGER_SOURCE = 4, 6


async def described(client: WireClient, name: int | str, kind: int = BROKER) -> dict[str, Any]:
    """Return what is configured for a resource, by the names of the configurations; the resource of a broker is it."""
    resource = {"resource_type": kind, "resource_name": str(name), "configuration_keys": None}
    answer = await client.ask(
        ApiKey.DESCRIBE_CONFIGS, 4, resources=[resource], include_synonyms=True, include_documentation=False
    )
    assert answer.results[0].error_code == ErrorCode.NONE
    return {each.name: each for each in answer.results[0].configs}


@pytest.mark.brokers(2)
async def test_broker_describes_itself(world: World) -> None:
    """Its number, its listeners and its directory are those of the running process, and nobody can change them."""
    for broker_id in (1, 2):
        facts = await described(await world.client(broker_id), broker_id)
        client = f"PLAINTEXT://broker-{broker_id}:{CLIENT_PORT}"
        internal = f"INTERNAL://broker-{broker_id}:{INTERNAL_PORT}"
        expected = {
            "node.id": str(broker_id),
            "broker.id": str(broker_id),
            "listeners": f"{client},{internal}",
            "advertised.listeners": client,
            "inter.broker.listener.name": "INTERNAL",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT",
            "log.dirs": LOG_DIRECTORY,
            "log.dir": LOG_DIRECTORY,
            "process.roles": "broker,controller",
        }

        assert {name: facts[name].value for name in expected} == expected
        assert {(facts[name].config_source, facts[name].read_only) for name in expected} == {(STATIC_BROKER, True)}


async def test_broker_without_a_rack_shows_none(world: World) -> None:
    """A fact that there is not is no value, from no file."""
    facts = await described(await world.client(), 1)

    assert facts["broker.rack"].value is None


async def test_fact_cannot_be_changed(world: World) -> None:
    """A value that is stored and shown, and has no effect, would be read as a fact."""
    client = await world.client()
    for name in ("listeners", "advertised.listeners", "listener.security.protocol.map", "log.dirs"):
        change = {"name": name, "config_operation": 0, "value": "PLAINTEXT://elsewhere:1"}
        resource = {"resource_type": BROKER, "resource_name": "1", "configs": [change]}

        answer = await client.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=False)

        assert answer.responses[0].error_code == ErrorCode.INVALID_REQUEST
        assert name in answer.responses[0].error_message


async def test_broker_describes_its_loggers(world: World) -> None:
    """Their levels are those in effect, under the names of Kafka's logging library."""
    loggers = await described(await world.client(), 1, LOGGER)

    assert next(iter(loggers)) == "root"
    assert loggers["syncline.node"].value == "INFO"
    assert {(each.config_source, each.read_only) for each in loggers.values()} == {(LOGGER_SOURCE, True)}


@pytest.mark.parametrize(
    ("kind", "name", "value"), [(CLIENT_METRICS, "metrics", ""), (GROUP, "consumer.session.timeout.ms", "45000")]
)
async def test_what_is_not_offered_is_described_by_defaults(world: World, kind: int, name: str, value: str) -> None:
    """Any name has Kafka's defaults, and no request changes them."""
    client = await world.client()
    change = {
        "resource_type": kind,
        "resource_name": "g",
        "configs": [{"name": name, "config_operation": 0, "value": "1"}],
    }

    entries = await described(client, "g", kind)
    altered = await client.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[change], validate_only=False)

    assert (entries[name].value, entries[name].read_only) == (value, True)
    assert altered.responses[0].error_code != ErrorCode.NONE
    assert f"{name} cannot be set" in altered.responses[0].error_message


@pytest.mark.parametrize("version", [1, 3, 4, 6])
async def test_coordinator_of_transactions_is_refused_for_good(world: World, version: int) -> None:
    """Librdkafka asks again for ever after any other error than this one."""
    client = await world.client()
    fields = {"key_type": 1, **({"coordinator_keys": ["t"]} if version >= 4 else {"key": "t"})}
    asked = encode_request(build(request_type(ApiKey.FIND_COORDINATOR, version), fields))

    body = await client.body(client.send(ApiKey.FIND_COORDINATOR, version, asked))
    answer = decode_response(ApiKey.FIND_COORDINATOR, version, body)

    found = answer.coordinators[0] if version >= 4 else answer
    assert found.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert "no transaction" in found.error_message
