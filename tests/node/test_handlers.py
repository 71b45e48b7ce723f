"""Handlers: the complete list, and that mypy checks each of them against the broker."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from syncline.node import handlers
from tests.cluster import ROOT


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
from syncline.local.supervisor import preload
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
print([key for key in (23, 56, 62, 63, *range(20_000, 20_007), 20_008) if table.get(key) is None])
print(codec.request_type(56, 3).__name__, codec.response_type(56, 3).__name__)
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)

    assert ran.stderr == ""
    assert ran.stdout.splitlines() == [
        "Too many open files",
        "[]",
        "AlterPartitionRequest AlterPartitionResponse",
    ]


def test_commands_about_moves_find_their_code_imported() -> None:
    """Guards: the first of them held the loop for more than ten milliseconds, to import code and schemas."""
    script = """
import sys
from syncline.local.supervisor import preload
preload()
from syncline.node import handlers
from tests.cluster import ROOT
handlers.import_for_brokers()
handlers.import_for_moves()
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
