"""`configs`: describe and alter configurations of topics and brokers."""

import json
from typing import Annotated, Any

import typer

from syncline.cli.target import (
    DEFAULT_DIRECTORY,
    BootstrapOption,
    DataOption,
    JsonOption,
    admin_client,
    bootstrap_of,
    guarded,
    parse_pairs,
    print_table,
    result_of,
)
from syncline.local.layout import LocalClusterError

app = typer.Typer(no_args_is_help=True, help="Describe and alter configurations of topics and brokers.")

SOURCES = {1: "topic", 2: "broker", 3: "cluster", 4: "static", 5: "default"}

KindArgument = Annotated[str, typer.Argument(help="topic or broker.")]
NameArgument = Annotated[str, typer.Argument(help="Name of the topic, or id of the broker.")]


@app.command()
def describe(
    kind: KindArgument,
    name: NameArgument,
    all_entries: Annotated[bool, typer.Option("--all", help="Show defaults, too.")] = False,
    bootstrap: BootstrapOption = None,
    data: DataOption = DEFAULT_DIRECTORY,
    as_json: JsonOption = False,
) -> None:
    """Show what is configured for a topic or a broker."""
    admin = admin_client(bootstrap_of(bootstrap, data))
    resource = _resource(kind, name)
    what = f"cannot describe {kind} {name!r}"
    entries = result_of(guarded(what, lambda: admin.describe_configs([resource]))[resource], what)
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
        print("everything is at its default (--all shows it)")
    else:
        print_table(["NAME", "VALUE", "SOURCE"], [[row["name"], row["value"], row["source"]] for row in rows])


@app.command()
def alter(
    kind: KindArgument,
    name: NameArgument,
    changes: Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Set; repeatable.")] = None,
    removals: Annotated[
        list[str] | None, typer.Option("--unset", metavar="NAME", help="Back to the default; repeatable.")
    ] = None,
    bootstrap: BootstrapOption = None,
    data: DataOption = DEFAULT_DIRECTORY,
    as_json: JsonOption = False,
) -> None:
    """Change the configuration of a topic or a broker while it runs."""
    if not changes and not removals:
        raise LocalClusterError("nothing to alter: give --set NAME=VALUE or --unset NAME.")
    admin = admin_client(bootstrap_of(bootstrap, data))
    set_configs(admin, kind, name, parse_pairs(changes, "--set"), removals or [])
    print(json.dumps({"altered": name}) if as_json else f"altered {kind} {name}")


def set_configs(admin: Any, kind: str, name: str, changes: dict[str, str], removals: list[str]) -> None:
    """Apply changes to one resource, all or none."""
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

    entries = [
        ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in changes.items()
    ] + [ConfigEntry(key, None, incremental_operation=AlterConfigOpType.DELETE) for key in removals]
    resource = ConfigResource(_resource(kind, name).restype, name, incremental_configs=entries)
    what = f"cannot alter {kind} {name!r}"
    result_of(guarded(what, lambda: admin.incremental_alter_configs([resource]))[resource], what)


def _resource(kind: str, name: str) -> Any:
    from confluent_kafka.admin import ConfigResource

    kinds = {"topic": ConfigResource.Type.TOPIC, "broker": ConfigResource.Type.BROKER}
    if kind not in kinds:
        raise LocalClusterError(f"configurations belong to a topic or a broker, not to a {kind!r}.")
    return ConfigResource(kinds[kind], name)
