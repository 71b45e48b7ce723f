"""`reassign plan`: what a move takes, from what the cluster does now, before anything moves."""

import json
import math
import time
from typing import Annotated, Any, Final

import typer

from syncline.cli.direct import Direct
from syncline.cli.reassign.cluster_reading import (
    read_cluster,
    require_brokers,
    require_partitions,
    warn_of_silent,
)
from syncline.cli.reassign.command import BootstrapServerOption, LinkOption, PlanOption
from syncline.cli.screen import print_table
from syncline.cli.target import SILENT_S, DataOption, JsonOption, bootstrap_of, counted, sentences
from syncline.cli.text_files import named, text_of
from syncline.cli.up_options import DEFAULT_DIRECTORY
from syncline.local.layout import LocalClusterError
from syncline.model.ids import NONE
from syncline.reassign.amounts import (
    parse_bytes,
    parse_capacity,
    parse_percent,
    parse_span_s,
    rate_words,
    seconds_words,
    size_words,
)
from syncline.reassign.cluster_state import ClusterState
from syncline.reassign.feasibility import Link, Verdict, judge, reasons
from syncline.reassign.formulas import Bottleneck, Load, Moving, Part, bottleneck, loads, move_ratio
from syncline.reassign.plan_file import parse_plan
from syncline.reassign.progress import planned, without_room, write_rates

INFEASIBLE: Final = 2
MEASURE_S_MAX: Final = 3_600.0


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(short_help="Compute the bytes, time and rates of a move in advance.")(plan)


def plan(
    plan_file: PlanOption,
    throttle: Annotated[
        str | None, typer.Option("--throttle", metavar="B/S", help="Compute how long the move takes at this rate.")
    ] = None,
    deadline: Annotated[
        str | None,
        typer.Option(
            "--deadline", metavar="TIME", help="Compute the rate that ends the move within this time, such as 10m."
        ),
    ] = None,
    keep: Annotated[
        str | None, typer.Option("--keep-clients", metavar="PERCENT", help="Share of each link that clients keep.")
    ] = None,
    impact: Annotated[
        str | None,
        typer.Option(
            "--max-client-impact", metavar="PERCENT", help="Share of each link that clients may lose to the move."
        ),
    ] = None,
    link: LinkOption = str(NONE),
    measure: Annotated[
        float,
        typer.Option(
            "--measure", metavar="SECONDS", min=0.1, max=MEASURE_S_MAX, help="How long to measure the growth of logs."
        ),
    ] = 2.0,
    bootstrap: BootstrapServerOption = None,
    data: DataOption = DEFAULT_DIRECTORY,
    as_json: JsonOption = False,
) -> None:
    """Compute from live measurements what a move would take; change nothing.

    Exits with 2 if no rate suits both the deadline and the clients, and says what would make the move possible.
    """
    if not math.isfinite(measure):
        raise LocalClusterError(f"--measure takes seconds from 0.1 to {MEASURE_S_MAX:g}, not {measure}.")
    with sentences(), Direct(bootstrap_of(bootstrap, data), SILENT_S) as cluster:
        targets = parse_plan(text_of(plan_file), named(plan_file))
        keep_percent = _kept(keep, impact)
        capacity = parse_capacity(link, "--link-capacity")
        link_bytes_per_s = math.inf if capacity == NONE else float(capacity)
        if keep_percent and math.isinf(link_bytes_per_s):
            raise LocalClusterError(
                "a share of the links can only be computed from their capacity: give --link-capacity B/S."
            )
        time_s = None if deadline is None else float(parse_span_s(deadline, "--deadline"))
        rate = None if throttle is None else float(parse_bytes(throttle, "--throttle"))
        topics = {target.key.topic for target in targets}
        replicas = sum(len(each.replicas) for each in read_cluster(cluster).partitions.values())
        before = read_cluster(cluster, topics, with_sizes=True)
        require_brokers(before, (broker for target in targets for broker in target.replicas))
        require_partitions(before, (target.key for target in targets))
        time.sleep(measure)
        state = read_cluster(cluster, topics, with_sizes=True)
    warn_of_silent(state)
    growth = write_rates(before, state)
    moving = planned(state, targets, growth)
    parts = loads(moving, counts_in_sync=not state.owns_throttles)
    links = {part: Link(link_bytes_per_s) for part in parts}
    verdict = judge(parts, links, keep_percent=keep_percent, time_s=time_s)
    created = sum(len(each.destinations) for each in moving)
    facts = _facts(state, moving, parts, verdict, rate) | {"move_ratio": move_ratio(created, replicas)}
    why = reasons(verdict, keep_percent=keep_percent, time_s=time_s)
    if as_json:
        print(json.dumps({**facts, "reasons": why}))
    else:
        _show(facts, why)
    if not verdict.is_feasible:
        raise typer.Exit(INFEASIBLE)


def _kept(keep: str | None, impact: str | None) -> int:
    if keep is not None and impact is not None:
        raise LocalClusterError("--keep-clients 90% and --max-client-impact 10% mean the same: give one of them.")
    if impact is not None:
        return 100 - parse_percent(impact, "--max-client-impact")
    return 0 if keep is None else parse_percent(keep, "--keep-clients")


def _facts(
    state: ClusterState, moving: list[Moving], parts: dict[Part, Load], verdict: Verdict, rate: float | None
) -> dict[str, Any]:
    chosen = rate if rate is not None else verdict.rate_bytes_per_s
    slowest = None if chosen is None else bottleneck(parts, chosen)
    bounds = {bound.part: bound for bound in verdict.bounds}
    return {
        "partitions": len(moving),
        "new_replicas": sum(len(each.destinations) for each in moving),
        "copied_bytes": sum(sum(each.lacking_bytes.values()) for each in moving),
        "parts": [
            {
                "broker": part.broker,
                "role": part.role.value,
                "copied_bytes": load.copy_bytes,
                "keep_up_bytes_per_s": round(load.keep_up_bytes_per_s),
                "min_bytes_per_s": round(bounds[part].min_bytes_per_s),
                "max_bytes_per_s": _finite(bounds[part].max_bytes_per_s),
                "room_after_bytes": _room_after(state, part, load),
            }
            for part, load in parts.items()
        ],
        "min_bytes_per_s": round(verdict.min_bytes_per_s),
        "max_bytes_per_s": _finite(verdict.max_bytes_per_s),
        "is_feasible": verdict.is_feasible,
        "rate_bytes_per_s": None if chosen is None else _finite(chosen),
        "time_s": _time(slowest),
        "never_ends": slowest is not None and math.isinf(slowest.time_s),
        "bottleneck": None if slowest is None else f"{slowest.part.role} on broker {slowest.part.broker}",
        "time_s_min": verdict.time_s_min,
        "keep_percent_max": verdict.keep_percent_max,
        "without_room": without_room(state, moving),
    }


def _show(facts: dict[str, Any], why: list[str]) -> None:
    print(
        f"{counted(facts['partitions'], 'partition')}, {counted(facts['new_replicas'], 'new replica')}, "
        f"MoveRatio {facts['move_ratio']:.3f}, {size_words(facts['copied_bytes'])} to copy"
    )
    if facts["parts"]:
        print_table(
            ["BROKER", "ROLE", "COPIES", "KEEP-UP", "AT LEAST", "AT MOST", "ROOM AFTER"],
            [
                [
                    part["broker"],
                    part["role"],
                    size_words(part["copied_bytes"]),
                    rate_words(part["keep_up_bytes_per_s"]),
                    rate_words(part["min_bytes_per_s"]),
                    rate_words(math.inf if part["max_bytes_per_s"] is None else part["max_bytes_per_s"]),
                    "-" if part["room_after_bytes"] is None else size_words(part["room_after_bytes"]),
                ]
                for part in facts["parts"]
            ],
        )
    if facts["never_ends"]:
        print(
            f"at {rate_words(facts['rate_bytes_per_s'])} the move never ends: {facts['bottleneck']} only keeps up "
            "with new writes"
        )
    elif facts["rate_bytes_per_s"] is not None and facts["time_s"] is not None:
        took = seconds_words(facts["time_s"])
        print(
            f"at {rate_words(facts['rate_bytes_per_s'])} the move takes {took}; the bottleneck is {facts['bottleneck']}"
        )
    elif facts["is_feasible"]:
        print("no rate to judge: give --throttle, --deadline, or --link-capacity with a share for clients")
    for sentence in [*why, *(f"{each}." for each in facts["without_room"])]:
        print(sentence)


def _room_after(state: ClusterState, part: Part, load: Load) -> int | None:
    known = state.brokers.get(part.broker)
    if part.role.value != "receiving" or known is None or known.usable_bytes < 0:
        return None
    return known.usable_bytes - load.copy_bytes


def _time(slowest: Bottleneck | None) -> float | None:
    if slowest is None or math.isinf(slowest.time_s) or slowest.time_s == 0:
        return None
    return round(slowest.time_s, 1)


def _finite(number: float) -> int | None:
    return None if math.isinf(number) else round(number)
