"""`throttle`: show, set and remove the limits of replication, and say which piece of one is missing."""

import json
import re
from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from syncline.cli.reassign.command import BootstrapServerOption, DryRunOption
from syncline.cli.screen import print_table, say, warn
from syncline.cli.target import SILENT_S, DataOption, JsonOption, bootstrap_of, sentences
from syncline.cli.up_options import DEFAULT_DIRECTORY
from syncline.local.layout import LocalClusterError
from syncline.model.ids import NONE, TopicPartition
from syncline.reassign.amounts import quoted

if TYPE_CHECKING:
    from syncline.reassign.cluster_state import ClusterState
    from syncline.reassign.throttle_state import Throttles

app = typer.Typer(no_args_is_help=True, help="Limit replication, and explain what limits it.")


class Roles(StrEnum):
    """Which side is limited."""

    BOTH = "both"
    SENDING = "sending"
    RECEIVING = "receiving"


RolesOption = Annotated[
    Roles, typer.Option("--role", help="sending: what leaders send. receiving: what followers receive. both: both.")
]
BrokersOption = Annotated[
    str | None, typer.Option("--brokers", metavar="ID,...|all", help="These brokers, or all of them.")
]
TopicsOption = Annotated[
    list[str] | None, typer.Option("--topic", "-t", metavar="TOPIC", help="Replicas of this topic; repeatable.")
]
ALL = "all"
_INDEX = re.compile(r"[0-9]{1,10}")
_REPLICAS = re.compile(r"\*|[0-9]{1,10}:[0-9]{1,10}(\s*,\s*[0-9]{1,10}:[0-9]{1,10})*")
_MODES = {"strict": "strictly", "kafka": "as Kafka does, on average over some seconds"}
# What the states of `throttle_state.Effect` mean to who reads them in a table.
_STATES = {
    "throttled": "the replica lacks records, and receives them no faster than the rate",
    "counted": "the replica is in sync and so never held back, but its bytes count against the rate",
    "free": "no throttle applies to the replica",
    "dormant": "a list names the replica as a sender, but it is not the leader now",
}


@app.command("show", short_help="Show every throttle that is set.")
def show_throttles(
    bootstrap: BootstrapServerOption = None, data: DataOption = DEFAULT_DIRECTORY, as_json: JsonOption = False
) -> None:
    """Show rates, lists and throttles of moves, and which of them limit nothing that moves."""
    from syncline.cli.direct import Direct
    from syncline.cli.reassign.cluster_reading import read_cluster
    from syncline.cli.reassign.throttle_configs import read_throttles
    from syncline.reassign.amounts import rate_words
    from syncline.reassign.throttle_state import left_behind

    with Direct(bootstrap_of(bootstrap, data), SILENT_S) as cluster:
        state = read_cluster(cluster)
        throttles = read_throttles(cluster, state)
    idle = left_behind(state, throttles)
    rates = [
        {"broker": broker, "name": name, "bytes_per_s": rate.bytes_per_s, "source": rate.source}
        for broker, each in throttles.rates.items()
        for name, rate in sorted(each.items())
    ]
    lists = [
        {"topic": topic, "name": name, "replicas": value}
        for topic, each in throttles.lists.items()
        for name, value in sorted(each.items())
    ]
    moves: list[dict[str, Any]] = [
        {"move": move.move_id, "name": move.name, "bytes_per_s": move.throttle_bytes_per_s, "control": move.control}
        for move in state.moves.values()
        if move.throttle_bytes_per_s != NONE
    ]
    if as_json:
        facts = {
            "rates": rates,
            "lists": lists,
            "moves": moves,
            "modes": throttles.modes,
            "limit_nothing": idle,
            "unread_brokers": list(throttles.unread),
        }
        print(json.dumps(facts))
        return
    if not (rates or lists or moves):
        say("no throttle is set")
    if rates:
        print_table(["BROKER", "RATE", "B/S", "SET FOR"], [list(row.values()) for row in rates])
    if lists:
        print_table(["TOPIC", "LIST", "REPLICAS"], [list(row.values()) for row in lists])
    for row in moves:
        named = f" ({row['name']})" if row["name"] else ""
        say(f"move {row['move']}{named}: {rate_words(row['bytes_per_s'])} at each broker while the move runs")
    for mode in sorted(set(throttles.modes.values())):
        brokers = [str(broker) for broker, each in throttles.modes.items() if each == mode]
        who = f"broker {brokers[0]} enforces" if len(brokers) == 1 else f"brokers {','.join(brokers)} enforce"
        say(f"{who} rates {_MODES.get(mode, mode)} (replication.quota.mode={mode})")
    if state.owns_throttles:
        for broker in sorted(state.brokers.keys() - throttles.modes.keys()):
            say(f"broker {broker} does not answer, so nobody knows how it enforces rates (replication.quota.mode)")
    for text in idle:
        say(text)
    say(*_unread(state, throttles))


@app.command("set", short_help="Set rates at brokers and lists at topics.")
def set_throttle(
    rate: Annotated[
        str | None, typer.Option("--rate", metavar="B/S", help="Bytes per second, such as 1000000 or 1MB.")
    ] = None,
    brokers: BrokersOption = None,
    topics: TopicsOption = None,
    replicas: Annotated[
        str, typer.Option("--replicas", metavar="PARTITION:BROKER,...|*", help="Which replicas of the topics.")
    ] = "*",
    role: RolesOption = Roles.BOTH,
    dry_run: DryRunOption = False,
    bootstrap: BootstrapServerOption = None,
    data: DataOption = DEFAULT_DIRECTORY,
    as_json: JsonOption = False,
) -> None:
    """Set rates on brokers, lists of throttled replicas on topics, or both; a throttle needs both.

    In both lists, the broker named is the one to limit: the sender or the receiver. A new list replaces the old one.
    For a permanent limit, such as for brokers that return empty: --rate 50MB --brokers all --topic T.
    """
    from syncline.reassign.amounts import parse_bytes

    if (rate is None) != (brokers is None):
        raise LocalClusterError("--rate and --brokers belong together: give both.")
    if rate is None and not topics:
        raise LocalClusterError("nothing to set: give --rate with --brokers, or --topic.")
    if not _REPLICAS.fullmatch(replicas):
        raise LocalClusterError(
            "--replicas takes * for all, or PARTITION:BROKER separated by commas, such as 0:1,0:2, not "
            f"{quoted(replicas)}."
        )
    with sentences():
        bytes_per_s = None if rate is None else parse_bytes(rate, "--rate")
    _change(bootstrap_of(bootstrap, data), brokers, topics, role, bytes_per_s, replicas, dry_run, as_json)


@app.command("clear", short_help="Remove rates of brokers and lists of topics.")
def clear_throttle(
    brokers: BrokersOption = None,
    topics: TopicsOption = None,
    role: RolesOption = Roles.BOTH,
    dry_run: DryRunOption = False,
    bootstrap: BootstrapServerOption = None,
    data: DataOption = DEFAULT_DIRECTORY,
    as_json: JsonOption = False,
) -> None:
    """Remove rates from brokers and lists from topics. The throttle of a move ends with the move."""
    if brokers is None and not topics:
        raise LocalClusterError("nothing to clear: give --brokers ID,... or --brokers all, or --topic.")
    _change(bootstrap_of(bootstrap, data), brokers, topics, role, None, None, dry_run, as_json)


@app.command("explain", short_help="Say which replicas are throttled, and by what.")
def explain_throttles(
    place: Annotated[
        str | None,
        typer.Argument(metavar="[TOPIC[:PARTITION]]", help="Show only this topic, or only this partition of it."),
    ] = None,
    bootstrap: BootstrapServerOption = None,
    data: DataOption = DEFAULT_DIRECTORY,
    as_json: JsonOption = False,
) -> None:
    """Say for each replica whether it is throttled, by what, and what is missing for a throttle.

    Without a topic, the command covers all replicas that move or that a list names.
    """
    from syncline.cli.direct import Direct
    from syncline.cli.reassign.cluster_reading import read_cluster
    from syncline.cli.reassign.throttle_configs import read_throttles
    from syncline.reassign.throttle_state import explain

    with Direct(bootstrap_of(bootstrap, data), SILENT_S) as cluster:
        state = read_cluster(cluster)
        throttles = read_throttles(cluster, state)
    keys = _named(place, list(state.partitions))
    if place is None:
        keys = [key for key in keys if key in state.running or key.topic in throttles.lists]
    found = explain(state, throttles, keys)
    # Beside the rows: without its rates, a broker seems to lack a throttle.
    warn(*_unread(state, throttles))
    if as_json:
        print(json.dumps([{**each._asdict(), "key": str(each.key)} for each in found]))
    elif not found:
        say("no partition is moving, and no list names a replica")
    else:
        print_table(["PARTITION", "BROKER", "ROLE", "STATE", "RATE", "BY", "MISSING"], [_row(each) for each in found])
        states = {each.effect.value for each in found}
        say("")
        for state_name, meaning in _STATES.items():
            if state_name in states:
                say(f"{state_name}: {meaning}")


def _unread(state: "ClusterState", throttles: "Throttles") -> list[str]:
    """Return a sentence for each broker whose rates nobody reports."""
    return [
        f"broker {broker} {'does not answer' if broker in state.brokers else 'is down'}, and no other broker reports "
        "its rates"
        for broker in throttles.unread
    ]


def _row(each: Any) -> list[Any]:
    from syncline.reassign.amounts import rate_words

    bound = "-" if each.bound_bytes_per_s == NONE else rate_words(each.bound_bytes_per_s)
    return [each.key, each.broker, each.role, each.effect, bound, each.by or "-", each.missing or "-"]


def _named(place: str | None, known: Sequence[TopicPartition]) -> list[TopicPartition]:
    if place is None:
        return list(known)
    topic, colon, number = place.rpartition(":")
    if colon and not _INDEX.fullmatch(number):
        raise LocalClusterError(f"name a topic or TOPIC:PARTITION, such as flights:3, not {quoted(place)}.")
    keys = [key for key in known if (key.topic == place if not colon else key == TopicPartition(topic, int(number)))]
    if not keys:
        raise LocalClusterError(f"there is no {'partition' if colon else 'topic'} {quoted(place)}.")
    return keys


def _change(
    bootstrap: str,
    brokers: str | None,
    topics: list[str] | None,
    role: Roles,
    bytes_per_s: int | None,
    replicas: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Set or, with None, remove what was named; lists first, as no byte may pass between them and the rates."""
    from syncline.cli.direct import Direct
    from syncline.cli.reassign.cluster_reading import read_cluster
    from syncline.cli.reassign.throttle_configs import check_limits, read_throttles, set_lists, set_rates
    from syncline.reassign.formulas import Role
    from syncline.reassign.plan_file import parse_brokers
    from syncline.reassign.throttle_state import LIST_OF, RATE_OF

    roles = [each for each in Role if role in (Roles.BOTH, each.value)]
    with sentences(), Direct(bootstrap) as cluster:
        state = read_cluster(cluster)
        chosen = [] if brokers is None else _all(state) if brokers == ALL else parse_brokers(brokers)
        known = {key.topic for key in state.partitions}
        missing = next((topic for topic in topics or [] if topic not in known), None)
        if missing is not None:
            raise LocalClusterError(f"there is no topic {quoted(missing)}. `syncline topics list` lists all topics.")
        if replicas is not None:
            _check_replicas(state, topics or [], replicas)
        lists: dict[str, dict[str, str | None]] = {
            topic: {LIST_OF[each]: replicas for each in roles} for topic in topics or []
        }
        rates: dict[str, int | None] = {RATE_OF[each]: bytes_per_s for each in roles}
        check_limits(cluster, state, lists, chosen, rates)
        before = read_throttles(cluster, state, topics or []) if replicas is None else None
        if not dry_run:
            set_lists(cluster, lists)
            set_rates(cluster, state, chosen, rates)
    changes: dict[str, Any] = {"lists": lists, "brokers": chosen, "rates": rates if chosen else {}}
    if before is not None:
        _tell_removed(before, changes, is_dry=dry_run, as_json=as_json)
        return
    if as_json:
        print(json.dumps({**changes, "is_dry_run": dry_run}))
        return
    would = "would be " if dry_run else ""
    for topic, values in lists.items():
        for name, value in values.items():
            say(f"topic {topic}: {name} {would}set to {value}")
    for broker in chosen:
        for name, number in rates.items():
            say(f"broker {broker}: {name} {would}set to {number}")


def _check_replicas(state: "ClusterState", topics: Sequence[str], replicas: str) -> None:
    """Raise `LocalClusterError` for a list that names what a topic or the cluster does not have."""
    if replicas == "*":
        return
    known = state.known_brokers()
    for item in replicas.split(","):
        partition, broker = map(int, item.split(":"))
        topic = next((each for each in topics if TopicPartition(each, partition) not in state.partitions), None)
        if topic is not None:
            raise LocalClusterError(f"--replicas names {item.strip()}, but topic {topic} has no partition {partition}.")
        if broker not in known:
            there = ",".join(map(str, known))
            raise LocalClusterError(
                f"--replicas names {item.strip()}, but there is no broker {broker}; the cluster has {there}."
            )


def _tell_removed(before: "Throttles", changes: dict[str, Any], *, is_dry: bool, as_json: bool) -> None:
    """Print what was removed, and what stays in force; a broker that is down or silent cannot say what it had."""
    from syncline.reassign.throttle_state import removal_from_all

    lists = {
        topic: {name: before.lists[topic][name] for name in names if name in before.lists.get(topic, {})}
        for topic, names in changes["lists"].items()
    }
    # What is set for all brokers is not removed at one of them.
    rates = {
        broker: {
            name: rate.bytes_per_s
            for name, rate in before.rates.get(broker, {}).items()
            if name in changes["rates"] and rate.source == "broker"
        }
        for broker in changes["brokers"]
    }
    unread = [broker for broker in changes["brokers"] if broker in before.unread]
    stays = {
        name: rate.bytes_per_s
        for broker in changes["brokers"]
        for name, rate in before.rates.get(broker, {}).items()
        if name in changes["rates"] and rate.source == "cluster"
    }
    if as_json:
        was_set = {"lists": lists, "rates": rates, "unread_brokers": unread}
        print(json.dumps({**changes, "was_set": was_set, "stays_for_all_brokers": stays, "is_dry_run": is_dry}))
        return
    removed = "would be removed" if is_dry else "removed"
    lines = [f"topic {topic}: {name} {removed}" for topic, names in lists.items() for name in names]
    lines += [f"broker {broker}: {name} {removed}" for broker, names in rates.items() for name in names]
    lines += [f"broker {broker}: {removed} if it had a rate; nobody can report one now" for broker in unread]
    lines += [
        f"{name}={bytes_per_s} is set for all brokers and stays: {removal_from_all(name)}"
        for name, bytes_per_s in stays.items()
    ]
    say(*(lines or ["nothing was set"]))


def _all(state: "ClusterState") -> list[int]:
    """Return the brokers that take a rate: Syncline's also while they are down, for their next start."""
    return state.known_brokers() if state.owns_throttles else list(state.brokers)
