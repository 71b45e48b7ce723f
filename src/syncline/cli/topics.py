"""`topics`: create, list, describe, delete, alter, elect leaders."""

import json
from enum import StrEnum
from typing import Annotated, Any, Final

import typer

from syncline.cli.screen import print_table, say
from syncline.cli.target import (
    REQUEST_TIMEOUT_S,
    BootstrapOption,
    DataOption,
    JsonOption,
    admin_client,
    bootstrap_of,
    code_of,
    counted,
    find_topic,
    guarded,
    no_topic,
    parse_pairs,
    result_of,
    sentence_of,
    topic_names,
)
from syncline.cli.up_options import DEFAULT_DIRECTORY
from syncline.local.layout import LocalClusterError
from syncline.model.ids import JOURNAL_TOPIC, OFFSETS_TOPIC, TRANSACTIONS_TOPIC

app = typer.Typer(no_args_is_help=True, help="Create, list, describe, delete and alter topics.")

# The largest values of the protocol's integers.
INT16_MAX = 32_767
INT32_MAX = 2_147_483_647

# What a user loses with each.
KEPT_BY_BROKERS: Final = {
    OFFSETS_TOPIC: "the committed offsets of all groups",
    JOURNAL_TOPIC: "everything that `syncline why` explains from",
    TRANSACTIONS_TOPIC: "the state of all transactions",
}

NameArgument = Annotated[str, typer.Argument(help="Name of the topic.")]


class ElectionKind(StrEnum):
    """The kind of election."""

    PREFERRED = "preferred"
    UNCLEAN = "unclean"


@app.command()
def create(
    name: NameArgument,
    partitions: Annotated[
        int, typer.Option("--partitions", "-p", help="Number of partitions (-1: the broker's default).", max=INT32_MAX)
    ] = -1,
    replication_factor: Annotated[
        int,
        typer.Option(
            "--replication-factor",
            "-r",
            help="Number of replicas of each partition (-1: the broker's default).",
            max=INT16_MAX,
        ),
    ] = -1,
    config: Annotated[
        list[str] | None,
        typer.Option("--config", "-c", metavar="NAME=VALUE", help="Topic configuration; repeatable."),
    ] = None,
    bootstrap: BootstrapOption = None,
    data: DataOption = DEFAULT_DIRECTORY,
    as_json: JsonOption = False,
) -> None:
    """Create a topic."""
    from confluent_kafka.admin import NewTopic

    admin = admin_client(bootstrap_of(bootstrap, data))
    topic = NewTopic(name, partitions, replication_factor, config=parse_pairs(config, "--config"))
    what = f"cannot create topic {name!r}"
    futures = guarded(what, lambda: admin.create_topics([topic], request_timeout=REQUEST_TIMEOUT_S))
    result_of(futures[name], what)
    print(json.dumps({"created": name}) if as_json else f"created topic {name}")


@app.command("list")
def list_topics(
    internal: Annotated[bool, typer.Option("--internal", help="Also show internal topics.")] = False,
    bootstrap: BootstrapOption = None,
    data: DataOption = DEFAULT_DIRECTORY,
    as_json: JsonOption = False,
) -> None:
    """List topics."""
    admin = admin_client(bootstrap_of(bootstrap, data))
    topics = topic_names(admin)
    rows = [
        {"topic": name, "partitions": len(topic.partitions), "replicas": _replica_count(topic)}
        for name, topic in sorted(topics.items())
        if internal or not name.startswith("__")
    ]
    if as_json:
        print(json.dumps(rows))
    elif not rows:
        say("no topics")
    else:
        print_table(["TOPIC", "PARTITIONS", "REPLICAS"], [list(row.values()) for row in rows])


@app.command(short_help="Show a topic's partitions, replicas and configuration.")
def describe(
    name: NameArgument,
    bootstrap: BootstrapOption = None,
    data: DataOption = DEFAULT_DIRECTORY,
    as_json: JsonOption = False,
) -> None:
    """Describe a topic: leader, replicas and in-sync set of each partition, and its configuration."""
    from syncline.cli.cluster_configs import of_topic

    servers = bootstrap_of(bootstrap, data)
    topic = find_topic(admin_client(servers), name)
    configs = {key: entry.value for key, entry in sorted(of_topic(servers, name).items()) if entry.source == 1}
    partitions = [
        {"partition": index, "leader": part.leader, "replicas": list(part.replicas), "isr": sorted(part.isrs)}
        for index, part in sorted(topic.partitions.items())
    ]
    if as_json:
        print(json.dumps({"topic": name, "partitions": partitions, "configs": configs}))
        return
    say(f"topic {name}: {counted(len(partitions), 'partition')}, {counted(_replica_count(topic), 'replica')}")
    for key, value in configs.items():
        say(f"  {key} = {value}")
    print_table(
        ["PARTITION", "LEADER", "REPLICAS", "IN SYNC"],
        [
            [row["partition"], row["leader"] if row["leader"] >= 0 else "none", _ids(row["replicas"]), _ids(row["isr"])]
            for row in partitions
        ],
    )


@app.command()
def delete(
    names: Annotated[list[str], typer.Argument(help="Names of the topics.")],
    internal: Annotated[bool, typer.Option("--internal", help="Allow internal topics to be deleted.")] = False,
    bootstrap: BootstrapOption = None,
    data: DataOption = DEFAULT_DIRECTORY,
    as_json: JsonOption = False,
) -> None:
    """Delete topics and everything in them."""
    from confluent_kafka import KafkaError

    for name in () if internal else names:
        if name in KEPT_BY_BROKERS:
            raise LocalClusterError(
                f"topic {name!r} is internal, and {KEPT_BY_BROKERS[name]} would be lost: nothing was deleted. "
                "Add --internal to delete it anyway."
            )
    admin = admin_client(bootstrap_of(bootstrap, data))
    unique = list(dict.fromkeys(names))
    futures = guarded("cannot delete topics", lambda: admin.delete_topics(unique, request_timeout=REQUEST_TIMEOUT_S))
    deleted = []
    refusals = []
    for name in unique:
        try:
            if code_of(futures[name]) == KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise no_topic(name)
            result_of(futures[name], f"cannot delete topic {name!r}")
        except LocalClusterError as refusal:
            refusals.append(refusal)
            continue
        deleted.append(name)
        if not as_json:
            say(f"deleted topic {name}")
    if as_json:
        print(json.dumps({"deleted": deleted}))
    if refusals:
        raise LocalClusterError(" ".join(map(str, refusals)))


@app.command()
def alter(
    name: NameArgument,
    partitions: Annotated[
        int | None,
        typer.Option("--partitions", "-p", help="New number of partitions, higher than before.", max=INT32_MAX),
    ] = None,
    config: Annotated[
        list[str] | None, typer.Option("--config", "-c", metavar="NAME=VALUE", help="Set a configuration; repeatable.")
    ] = None,
    bootstrap: BootstrapOption = None,
    data: DataOption = DEFAULT_DIRECTORY,
    as_json: JsonOption = False,
) -> None:
    """Add partitions to a topic, or change its configuration."""
    from confluent_kafka.admin import NewPartitions

    from syncline.cli.configs import set_configs

    if partitions is None and not config:
        raise LocalClusterError("nothing to alter: give --partitions or --config.")
    admin = admin_client(bootstrap_of(bootstrap, data))
    find_topic(admin, name)
    what = f"cannot alter topic {name!r}"
    if partitions is not None:
        futures = guarded(what, lambda: admin.create_partitions([NewPartitions(name, partitions)]))
        result_of(futures[name], what)
    if config:
        set_configs(admin, "topic", name, parse_pairs(config, "--config"), [])
    print(json.dumps({"altered": name}) if as_json else f"altered topic {name}")


@app.command("elect-leaders", short_help="Hold preferred or unclean elections.")
def elect_leaders(
    kind: Annotated[
        ElectionKind,
        typer.Option(
            "--type",
            help="preferred: elect the first replica, if it is in sync. unclean: where there is no leader, elect "
            "any live replica; committed records may be lost.",
        ),
    ] = ElectionKind.PREFERRED,
    topic: Annotated[str | None, typer.Option("--topic", "-t", help="Only this topic (default: all topics).")] = None,
    partition: Annotated[
        list[int] | None,
        typer.Option("--partition", "-p", help="Only this partition of the topic; repeatable.", min=0, max=INT32_MAX),
    ] = None,
    bootstrap: BootstrapOption = None,
    data: DataOption = DEFAULT_DIRECTORY,
    as_json: JsonOption = False,
) -> None:
    """Hold leader elections where the leader would change."""
    from confluent_kafka import ElectionType, KafkaError, TopicPartition

    if partition and topic is None:
        raise LocalClusterError("--partition needs --topic.")
    admin = admin_client(bootstrap_of(bootstrap, data))
    places = None
    if topic is not None:
        known = sorted(find_topic(admin, topic).partitions)
        places = [TopicPartition(topic, each) for each in dict.fromkeys(partition or known)]
    what = "cannot elect leaders"
    wanted = ElectionType.PREFERRED if kind is ElectionKind.PREFERRED else ElectionType.UNCLEAN
    # confluent-kafka 2.16 cannot parse its own options of this call.
    future = guarded(what, lambda: admin.elect_leaders(wanted, places))
    outcome = result_of(future, what)
    rows = []
    for place, raised in sorted(outcome.items(), key=lambda item: (item[0].topic, item[0].partition)):
        error = raised.args[0] if isinstance(raised, Exception) else raised
        is_needless = error is not None and error.code() == KafkaError.ELECTION_NOT_NEEDED
        refused = None if error is None or is_needless else sentence_of(error)
        rows.append({"topic": place.topic, "partition": place.partition, "elected": error is None, "error": refused})
    if as_json:
        print(json.dumps(rows))
    else:
        for row in rows:
            done = "a leader was elected" if row["elected"] else row["error"] or "no election was needed"
            say(f"{row['topic']}-{row['partition']}: {done}")
        if not rows:
            say("no election was needed")
    if any(row["error"] for row in rows):
        raise typer.Exit(1)


def _replica_count(topic: Any) -> int:
    return max((len(partition.replicas) for partition in topic.partitions.values()), default=0)


def _ids(brokers: list[int]) -> str:
    return ",".join(map(str, brokers)) or "none"
