"""Handlers: the complete list, and that mypy checks each of them against the broker."""

import ast
import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from syncline.model.ids import BrokerId
from syncline.node import handlers
from syncline.node.controller.private_messages import encode_forward
from syncline.wire.api import ApiKey
from tests.cluster import ROOT
from tests.node.world import World


def lists() -> dict[str, list[str]]:
    """Return the two lists of late handlers in the module's source: what is imported, and what is type-checked."""
    tree = ast.parse(Path(handlers.__file__).read_text(encoding="utf-8"))
    found: dict[str, list[str]] = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        if isinstance(node.value, ast.Tuple):
            found[node.target.id] = [ast.unparse(each).strip("'").removesuffix(".handle") for each in node.value.elts]
    return found


@pytest.mark.interpreted
def test_every_handler_is_checked_against_the_broker() -> None:
    """A handler that is imported late is in the list whose type says that the broker has what it uses."""
    found = lists()

    assert found["_LATE"]
    assert found["_LATE"] == found["_MODULES"]


def test_every_handler_is_found_by_its_key() -> None:
    """The number in a module's name is the key that it serves."""
    table = handlers.Handlers()
    keys = table.keys()

    assert [] == [key for key in keys if table.get(key) is None]


def test_brokers_can_talk_without_descriptors() -> None:
    """Guards: a broker that ran out of descriptors could not import what it needs to hand its partitions over."""
    script = """
import resource
from syncline.local.preload import preload
preload()
from syncline.node import handlers
from tests.cluster import ROOT
from syncline.wire import codec
handlers.import_for_brokers()
table = handlers.Handlers()
resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
try:
    open("/dev/null")
except OSError as error:
    print(error.strerror)
print([key for key in (23, 56, 62, 63, 20_000, 20_001, *range(20_003, 20_010)) if table.get(key) is None])
print(codec.request_type(56, 3).__name__, codec.response_type(56, 3).__name__)
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)

    assert ran.stderr == ""
    assert ran.stdout.splitlines() == [
        "Too many open files",
        "[]",
        "AlterPartitionRequest AlterPartitionResponse",
    ]


class Imports:
    """Stands for a worker that imports when the test says so."""

    def __init__(self) -> None:
        self.asked: list[tuple[Callable[[], None], Callable[[Exception | None], None]]] = []

    def run_later(self, work: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        """Keep what is asked for."""
        self.asked.append((work, done))

    def end(self, outcome: Exception | None = None) -> None:
        """Say that it is imported, or why not."""
        ((work, done),) = self.asked
        assert work is handlers.import_for_tools
        done(outcome)


CONFIGS = {"resources": [{"resource_type": 2, "resource_name": "t", "configuration_keys": None}]}
CONFIGS |= {"include_synonyms": False, "include_documentation": False}
MOVES: dict[str, Any] = {"timeout": 30_000, "topics": None}


def test_first_requests_of_tools_wait_for_a_worker_and_others_do_not() -> None:
    """Guards: what tools ask for takes a megabyte, and the first one that asks held the loop for ten milliseconds."""
    world = World()

    async def scene() -> None:
        await world.topic(replicas=(1,))
        imports, table = Imports(), handlers.Handlers()
        table.import_for_tools_with(imports.run_later)
        world.broker().dispatcher.handlers = table
        client, other, peer = await world.client(), await world.client(), await world.peer()
        await client.ask(ApiKey.LIST_GROUPS, 0)
        await client.ask(ApiKey.DELETE_TOPICS, 4, topic_names=(), timeout=30_000)
        assert imports.asked == []

        asking = [
            asyncio.ensure_future(client.ask(ApiKey.DESCRIBE_CONFIGS, 4, **CONFIGS)),
            asyncio.ensure_future(other.ask(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, **MOVES)),
            asyncio.ensure_future(peer.body(peer.send(ApiKey.CONTROL, 0, b'{"verb": "describe"}'))),
        ]
        await world.later(1)
        assert not any(each.done() for each in asking)
        # Other clients do not wait.
        await (await world.client()).ask(ApiKey.LIST_GROUPS, 0)

        world.call(1, imports.end)
        configs, moves, refused = await asyncio.gather(*asking)
        assert configs.results[0].error_code == 0
        assert moves.error_code == 0
        assert b"without a secret" in refused
        await client.ask(ApiKey.DESCRIBE_CONFIGS, 4, **CONFIGS)
        assert len(imports.asked) == 1

    world.run(scene)


def test_requests_of_tools_wait_for_a_worker_and_no_others() -> None:
    """Also those that another broker forwards."""
    imports, table = Imports(), handlers.Handlers()
    table.import_for_tools_with(imports.run_later)
    waiting = {key for key in list(table.keys()) if table.get(key) == table._wait}

    assert waiting == {32, 35, 44, 45, 46, 20_002}


def test_first_request_of_a_tool_that_is_forwarded_waits_too() -> None:
    """The broker that the tool asks is not the one that decides, and each imports what it needs."""
    world = World()

    async def scene() -> None:
        await world.topic(replicas=(1,))
        imports, table = Imports(), handlers.Handlers()
        table.import_for_tools_with(imports.run_later)
        world.broker().dispatcher.handlers = table
        peer, other = await world.peer(), await world.peer()
        # A connection of no registered broker is refused in either case.
        refusal = b"\x00\x29"
        groups = encode_forward(ApiKey.DELETE_TOPICS, 4, BrokerId(1))
        assert (await peer.body(peer.send(ApiKey.FORWARD, 0, groups)))[-2:] == refusal
        assert imports.asked == []

        moves = encode_forward(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, BrokerId(1))
        asking = [asyncio.ensure_future(each.body(each.send(ApiKey.FORWARD, 0, moves))) for each in (peer, other)]
        await world.later(1)
        assert not any(each.done() for each in asking)
        world.call(1, imports.end)
        assert [answer[-2:] for answer in await asyncio.gather(*asking)] == [refusal] * 2

    world.run(scene)


def test_requests_that_have_waited_are_served_in_turns_of_their_own() -> None:
    """Guards: hundreds of first requests held the loop for half a second, in the callback that ended the import."""
    world = World()

    async def scene() -> None:
        await world.topic(replicas=(1,))
        imports, table = Imports(), handlers.Handlers()
        table.import_for_tools_with(imports.run_later)
        dispatcher = world.broker().dispatcher
        dispatcher.handlers = table
        clients = [await world.client() for _ in range(50)]
        asking = [asyncio.ensure_future(each.ask(ApiKey.DESCRIBE_CONFIGS, 4, **CONFIGS)) for each in clients]
        await world.later(1)
        before = len(dispatcher._stepping)
        world.call(1, imports.end)
        assert (before, len(dispatcher._stepping)) == (0, 50)

        assert all(answer.results[0].error_code == 0 for answer in await asyncio.gather(*asking))

    world.run(scene)


def test_tools_are_served_if_their_code_cannot_be_imported_ahead() -> None:
    """Each of their requests imports what it needs, then; a connection that was lost meanwhile gets nothing."""
    world = World()

    async def scene() -> None:
        await world.topic(replicas=(1,))
        imports, table = Imports(), handlers.Handlers()
        table.import_for_tools_with(imports.run_later)
        world.broker().dispatcher.handlers = table
        client, lost = await world.client(), await world.client()
        gone = asyncio.ensure_future(lost.ask(ApiKey.DESCRIBE_CONFIGS, 4, **CONFIGS))
        asking = asyncio.ensure_future(client.ask(ApiKey.DESCRIBE_CONFIGS, 4, **CONFIGS))
        await world.later(1)
        lost.transport.close()
        await world.later(1)

        world.call(1, imports.end, OSError("no descriptors"))
        assert (await asking).results[0].error_code == 0
        assert isinstance((await asyncio.gather(gone, return_exceptions=True))[0], Exception)
        assert [line for line in world.errors.warnings if "could not be imported" in line]

    world.run(scene)


def test_commands_about_moves_find_their_code_imported() -> None:
    """Guards: the first of them held the loop for more than ten milliseconds, to import code and schemas."""
    script = """
import sys
from syncline.local.preload import preload
preload()
from syncline.node import handlers
from tests.cluster import ROOT
handlers.import_for_brokers()
handlers.import_for_tools()
from syncline.wire.api import ApiKey
from tests.node.world import World

world = World(3)

async def scene():
    await world.topic(replicas=(1,))
    client = await world.client(2)
    known = set(sys.modules)
    row = {"partition_index": 0, "replicas": (2, 3)}
    topics = [{"name": "t", "partitions": [row]}]
    await client.ask(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 1, timeout=30_000, topics=topics, throttle=1)
    await client.ask(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, timeout=30_000, topics=None)
    asked = [{"topic_id": None, "name": "t"}]
    await client.ask(ApiKey.METADATA, 12, topics=asked, allow_auto_topic_creation=False,
        include_topic_authorized_operations=False)
    await client.ask(ApiKey.DESCRIBE_LOG_DIRS, 4, topics=None)
    resource = {"resource_type": 2, "resource_name": "t", "configuration_keys": None}
    await client.ask(ApiKey.DESCRIBE_CONFIGS, 4, resources=[resource], include_synonyms=True,
        include_documentation=False)
    config = {"name": "follower.replication.throttled.replicas", "config_operation": 0, "value": "*"}
    resource = {"resource_type": 2, "resource_name": "t", "configs": [config]}
    await client.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=False)
    await world.later(1)
    print(sorted(name for name in set(sys.modules) - known if name.startswith(("kio", "syncline"))))

world.run(scene)
"""
    ran = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)

    assert (ran.stderr, ran.stdout) == ("", "[]\n")
