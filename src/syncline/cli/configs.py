"""`configs`: describe and alter configurations of topics and brokers."""

import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from syncline.cli.screen import print_table, say
from syncline.cli.target import (
    REQUEST_TIMEOUT_S,
    SILENT_S,
    BootstrapOption,
    DataOption,
    JsonOption,
    admin_client,
    bootstrap_of,
    find_topic,
    guarded,
    parse_pairs,
    result_of,
)
from syncline.cli.up_options import DEFAULT_DIRECTORY
from syncline.local.layout import LocalClusterError
from syncline.model.broker_config import BROKER_CONFIGS
from syncline.model.kept_configs import THROTTLE_RATES
from syncline.model.topic_config import TOPIC_CONFIGS

if TYPE_CHECKING:
    from syncline.cli.cluster_configs import ClusterEntry

app = typer.Typer(no_args_is_help=True, help="Describe and alter the configurations of topics and brokers.")

SOURCES = {1: "topic", 2: "broker", 3: "cluster", 4: "static", 5: "default"}

KindArgument = Annotated[str, typer.Argument(help="topic or broker.")]
NameArgument = Annotated[
    str, typer.Argument(help="Name of the topic, id of the broker, or `all` for the values set for all brokers.")
]
AlteredArgument = Annotated[
    str, typer.Argument(help="Name of the topic, id of the broker, or `all` for a value that applies to all brokers.")
]
ALL_BROKERS = "all"


@app.command()
def describe(
    kind: KindArgument,
    name: NameArgument,
    all_entries: Annotated[bool, typer.Option("--all", help="Also show defaults.")] = False,
    bootstrap: BootstrapOption = None,
    data: DataOption = DEFAULT_DIRECTORY,
    as_json: JsonOption = False,
) -> None:
    """Show the configuration of a topic, a broker or all brokers."""
    from syncline.cli.cluster_configs import of_all_brokers

    where = bootstrap_of(bootstrap, data)
    entries: Mapping[str, ClusterEntry]
    if kind == "broker" and name == ALL_BROKERS:
        entries = of_all_brokers(where)
    else:
        _resource(admin_client(where), kind, name)
        entries = _entries_of(where, kind, name, "describe", SILENT_S)
    rows = [
        {
            "name": key,
            "value": entry.value,
            "source": SOURCES.get(int(entry.source), "?"),
            "read_only": entry.is_read_only,
        }
        for key, entry in sorted(entries.items())
        if all_entries or int(entry.source) not in (4, 5)
    ]
    if as_json:
        print(json.dumps(rows))
    elif not rows:
        say("every configuration has its default (--all shows them)")
    else:
        print_table(["NAME", "VALUE", "SOURCE"], [[row["name"], row["value"], row["source"]] for row in rows])


@app.command()
def alter(
    kind: KindArgument,
    name: AlteredArgument,
    changes: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Set a configuration; repeatable.")
    ] = None,
    removals: Annotated[
        list[str] | None,
        typer.Option("--unset", metavar="NAME", help="Reset a configuration to its default; repeatable."),
    ] = None,
    bootstrap: BootstrapOption = None,
    data: DataOption = DEFAULT_DIRECTORY,
    as_json: JsonOption = False,
) -> None:
    """Change the configuration of a topic or of brokers.

    NAME `all` with KIND `broker` means every broker of the cluster.
    """
    if not changes and not removals:
        raise LocalClusterError("nothing to alter: give --set NAME=VALUE or --unset NAME.")
    where = bootstrap_of(bootstrap, data)
    pairs = parse_pairs(changes, "--set")
    if kind == "broker" and name == ALL_BROKERS:
        from syncline.cli.cluster_configs import alter_all_brokers

        _warn_of_unknown([*pairs, *(removals or [])])
        alter_all_brokers(where, pairs, removals or [])
    else:
        admin = admin_client(where)
        _resource(admin, kind, name)
        _warn_of_undefined(where, kind, name, [*pairs, *(removals or [])])
        set_configs(admin, kind, name, pairs, removals or [])
    target = "all brokers" if kind == "broker" and name == ALL_BROKERS else f"{kind} {name}"
    print(json.dumps({"altered": name}) if as_json else f"altered {target}")


def _entries_of(where: str, kind: str, name: str, verb: str, patience_s: float) -> Mapping[str, "ClusterEntry"]:
    """Return the configuration of a topic or a broker that exists; `verb` says what the caller wants to do."""
    from syncline.cli.cluster_configs import of_broker, of_topic

    if kind == "topic":
        return of_topic(where, name, verb=verb)
    return of_broker(where, int(name), verb=verb, patience_s=patience_s)


def _warn_of_undefined(where: str, kind: str, name: str, keys: list[str]) -> None:
    """Warn about unknown names: Kafka stores unknown broker configurations, for plug-ins, without an error."""
    known = _entries_of(where, kind, name, "alter", REQUEST_TIMEOUT_S)
    for key in keys:
        if key not in known and key not in BROKER_CONFIGS and key not in TOPIC_CONFIGS and key not in THROTTLE_RATES:
            print(f"note: {kind} {name} had no configuration {key!r} before; check the name", file=sys.stderr)


def _warn_of_unknown(keys: list[str]) -> None:
    for key in keys:
        if key not in BROKER_CONFIGS and key not in THROTTLE_RATES:
            print(f"note: brokers know no configuration {key!r}; check the name", file=sys.stderr)


def set_configs(admin: Any, kind: str, name: str, changes: dict[str, str], removals: list[str]) -> None:
    """Apply changes to one resource, all or none."""
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

    entries = [
        ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in changes.items()
    ] + [ConfigEntry(key, None, incremental_operation=AlterConfigOpType.DELETE) for key in removals]
    resource = ConfigResource(_resource(admin, kind, name).restype, name, incremental_configs=entries)
    what = f"cannot alter {kind} {name!r}"
    result_of(guarded(what, lambda: admin.incremental_alter_configs([resource]))[resource], what)


def _resource(admin: Any, kind: str, name: str) -> Any:
    """Return the resource of a request; `LocalClusterError` if there is no such topic or broker."""
    from confluent_kafka.admin import ConfigResource

    if kind == "topic":
        find_topic(admin, name)
        return ConfigResource(ConfigResource.Type.TOPIC, name)
    if kind == "broker":
        brokers = guarded("cannot list brokers", lambda: admin.list_topics(timeout=REQUEST_TIMEOUT_S)).brokers
        if name not in map(str, brokers):
            raise LocalClusterError(
                f"broker {name!r} does not exist or is down. Brokers that are up: "
                f"{', '.join(map(str, sorted(brokers)))}."
            )
        return ConfigResource(ConfigResource.Type.BROKER, name)
    raise LocalClusterError(f"KIND is `topic` or `broker`, not {kind!r}.")
