"""Configurations that change while brokers run, and a broker that cannot use them."""

import pytest

from syncline.wire.api import ApiKey
from tests.node.world import World

PER_ADDRESS = "max.connections.per.ip"


async def configure(world: World, name: str, value: str) -> int:
    """Set a configuration of all brokers; return the error code."""
    peer = await world.peer()
    resource = {
        "resource_type": 4,
        "resource_name": "",
        "configs": [{"name": name, "config_operation": 0, "value": value}],
    }
    answer = await peer.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=False)
    peer.transport.close()
    await world.later(1)
    return int(answer.responses[0].error_code)


@pytest.mark.brokers(1, max_connections_per_ip_overrides="world:2")
async def test_broker_whose_own_start_contradicts_a_change_keeps_what_it_has_and_serves(world: World) -> None:
    """It was started anew without the overrides for which the value was accepted, and the value can be taken back.

    Until then, it has what else is set.
    """
    assert await configure(world, PER_ADDRESS, "0") == 0
    assert await configure(world, "message.max.bytes", "500000") == 0
    assert world.broker().configs.broker.max_connections_per_ip == 0
    world.kill(1)
    del world.cluster.settings.config["max.connections.per.ip.overrides"]
    await world.start(1)

    assert world.broker().configs.broker.max_connections_per_ip > 0
    assert world.broker().configs.broker.message_max_bytes == 500_000
    assert any("this broker cannot use" in each and PER_ADDRESS in each for each in world.errors.logged)
    assert await configure(world, PER_ADDRESS, "9") == 0
    assert world.broker().configs.broker.max_connections_per_ip == 9
