"""Configurations of all brokers at once: Kafka's "default" broker, which has no name.

The client library cannot name it, so this request takes a connection of our own. Any broker accepts it and forwards it
to the controller.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from syncline.cli.direct import Direct, refuse_errors
from syncline.wire.api import ApiKey

BROKER: Final = 4
SET: Final = 0
DELETE: Final = 1


class ClusterEntry(NamedTuple):
    """One configuration of the whole cluster, as the client library has those of a topic or a broker."""

    value: str | None
    source: int
    is_read_only: bool


def of_all_brokers(bootstrap: str) -> dict[str, ClusterEntry]:
    """Return what is set for the whole cluster, by name; raises `LocalClusterError`."""
    fields = {
        "resources": [{"resource_type": BROKER, "resource_name": "", "configuration_keys": None}],
        "include_synonyms": False,
        "include_documentation": False,
    }
    with Direct(bootstrap) as cluster:
        answer = cluster.ask(ApiKey.DESCRIBE_CONFIGS, fields)
    found = {}
    for result in answer.results:
        refuse_errors("cannot describe all brokers", int(result.error_code), result.error_message)
        for entry in result.configs:
            found[str(entry.name)] = ClusterEntry(entry.value, int(entry.config_source), bool(entry.read_only))
    return found


def alter_all_brokers(bootstrap: str, changes: Mapping[str, str], removals: Sequence[str]) -> None:
    """Change configurations of the whole cluster, all or none; raises `LocalClusterError` with the reason."""
    configs: list[dict[str, Any]] = [
        {"name": name, "config_operation": SET, "value": value} for name, value in changes.items()
    ]
    configs += [{"name": name, "config_operation": DELETE, "value": None} for name in removals]
    fields = {
        "resources": [{"resource_type": BROKER, "resource_name": "", "configs": configs}],
        "validate_only": False,
    }
    with Direct(bootstrap) as cluster:
        answer = cluster.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, fields)
    for result in answer.responses:
        refuse_errors("cannot alter all brokers", int(result.error_code), result.error_message)
