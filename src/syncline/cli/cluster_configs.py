"""Configurations, asked for without the client library.

It cannot name all brokers at once, Kafka's "default" broker, which has no name; any broker accepts a change of these
and forwards it to the controller. And it asks only the controller about topics, which may be silent, while any broker
knows them.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from syncline.cli.direct import BrokerSilentError, Direct, refuse_errors
from syncline.cli.target import SILENT_S
from syncline.local.layout import LocalClusterError
from syncline.wire.api import ApiKey

TOPIC: Final = 2
BROKER: Final = 4
SET: Final = 0
DELETE: Final = 1


class ClusterEntry(NamedTuple):
    """One configuration of a topic, a broker or the whole cluster."""

    value: str | None
    source: int
    is_read_only: bool


def of_all_brokers(bootstrap: str) -> dict[str, ClusterEntry]:
    """Return what is set for the whole cluster, by name; raises `LocalClusterError`."""
    with Direct(bootstrap, SILENT_S) as cluster:
        answer = cluster.ask(ApiKey.DESCRIBE_CONFIGS, _asked(BROKER, ""))
    return _entries("cannot describe all brokers", answer)


def of_topic(bootstrap: str, topic: str, *, verb: str = "describe") -> dict[str, ClusterEntry]:
    """Return a topic's configuration, by name; raises `LocalClusterError`, which says what the caller cannot do."""
    with Direct(bootstrap, SILENT_S) as cluster:
        answer = cluster.ask(ApiKey.DESCRIBE_CONFIGS, _asked(TOPIC, topic))
    return _entries(f"cannot {verb} topic {topic!r}", answer)


def of_broker(
    bootstrap: str, broker: int, *, verb: str = "describe", patience_s: float = SILENT_S
) -> dict[str, ClusterEntry]:
    """Return a broker's configuration, by name, as only that broker knows it; raises `LocalClusterError`."""
    what = f"cannot {verb} broker '{broker}'"
    with Direct(bootstrap, patience_s) as cluster:
        cluster.learn_brokers()
        try:
            answer = cluster.ask_broker(broker, ApiKey.DESCRIBE_CONFIGS, _asked(BROKER, str(broker)))
        except BrokerSilentError as error:
            raise LocalClusterError(
                f"{what}: it does not answer ({error}), and only that broker knows all its configurations. "
                "`syncline configs describe broker all` shows what is set for all brokers."
            ) from None
    return _entries(what, answer)


def _asked(kind: int, name: str) -> dict[str, Any]:
    return {
        "resources": [{"resource_type": kind, "resource_name": name, "configuration_keys": None}],
        "include_synonyms": False,
        "include_documentation": False,
    }


def _entries(what: str, answer: Any) -> dict[str, ClusterEntry]:
    found = {}
    for result in answer.results:
        refuse_errors(what, int(result.error_code), result.error_message)
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
