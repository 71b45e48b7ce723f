"""`reassign`: move partitions to other brokers. The files, options and texts of Kafka's tool, for either cluster."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from syncline.cli.screen import say_text
from syncline.cli.target import SILENT_S, DataOption, JsonOption, bootstrap_of, sentences
from syncline.cli.text_files import named, text_of
from syncline.cli.up_options import DEFAULT_DIRECTORY
from syncline.local.layout import LocalClusterError
from syncline.model.ids import NONE

app = typer.Typer(no_args_is_help=True, help="Move partitions to other brokers, at a suitable rate.")

BootstrapServerOption = Annotated[
    str | None,
    typer.Option(
        "--bootstrap",
        "--bootstrap-server",
        "-b",
        metavar="HOST:PORT,...",
        help="Cluster to connect to, Syncline or Apache Kafka (default: the local cluster in --data).",
    ),
]
PlanOption = Annotated[
    Path,
    typer.Option(
        "--reassignment-json-file",
        "--plan",
        "-f",
        metavar="FILE",
        help="The plan: which replicas each partition should have.",
    ),
]
PreserveOption = Annotated[
    bool, typer.Option("--preserve-throttles", help="Leave throttle configurations as they are.")
]
TimeoutOption = Annotated[
    int,
    typer.Option(
        "--timeout",
        metavar="MS",
        min=0,
        max=86_400_000,
        help="How long to keep trying to start moves between log directories.",
    ),
]
LinkOption = Annotated[
    str,
    typer.Option("--link-capacity", metavar="B/S", help="What each broker can send or receive (default: unknown)."),
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show everything that would change, and change nothing.")]
LOG_DIR_TIMEOUT_MS = 10_000


@app.command(short_help="Propose where partitions could be.")
def generate(
    broker_list: Annotated[
        str, typer.Option("--broker-list", metavar="ID,...", help="The brokers to spread the partitions over.")
    ],
    topics_file: Annotated[
        Path | None,
        typer.Option(
            "--topics-to-move-json-file",
            metavar="FILE",
            help="Topics to move (optional with --minimal, which then takes all topics).",
        ),
    ] = None,
    minimal: Annotated[
        bool,
        typer.Option("--minimal", help="Balance replicas and leaders with the fewest bytes moved, not from scratch."),
    ] = False,
    disable_rack_aware: Annotated[bool, typer.Option("--disable-rack-aware", help="Ignore racks.")] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Also write the proposed plan to this file.")
    ] = None,
    bootstrap: BootstrapServerOption = None,
    data: DataOption = DEFAULT_DIRECTORY,
    as_json: JsonOption = False,
) -> None:
    """Print the current plan and a proposed one; change nothing.

    Without --minimal, the proposal ignores where replicas are now, as Kafka's tool does, and moves nearly everything.
    """
    from syncline.cli.direct import Direct
    from syncline.cli.reassign.cluster_reading import read_cluster, warn_of_silent
    from syncline.cli.reassign.generate import print_proposal, propose
    from syncline.reassign.plan_file import parse_brokers, parse_topics

    with sentences(), Direct(bootstrap_of(bootstrap, data), SILENT_S) as cluster:
        if topics_file is None and not minimal:
            raise LocalClusterError(
                'Missing required argument "[topics-to-move-json-file]": give --topics-to-move-json-file '
                "FILE, or --minimal, which takes all topics without one."
            )
        brokers = parse_brokers(broker_list)
        topics = None if topics_file is None else parse_topics(text_of(topics_file), named(topics_file))
        # With sizes, brokers tell in which directories replicas are, which are part of a plan.
        state = read_cluster(cluster, with_sizes=True)
        warn_of_silent(state)
        proposal = propose(state, brokers, topics, is_minimal=minimal, ignores_racks=disable_rack_aware)
    print_proposal(proposal, output, is_minimal=minimal, as_json=as_json)


@app.command(short_help="Start moves, optionally at a throttle that belongs to them.")
def execute(
    plan: PlanOption,
    throttle: Annotated[
        str,
        typer.Option(
            "--throttle", metavar="B/S", help="Bytes per second at each broker, such as 1000000 or 1MB, or none."
        ),
    ] = str(NONE),
    deadline: Annotated[
        str | None,
        typer.Option(
            "--deadline", metavar="TIME", help="Adapt the rate so that the move ends within this time, such as 10m."
        ),
    ] = None,
    impact: Annotated[
        str | None,
        typer.Option(
            "--max-client-impact",
            metavar="PERCENT",
            help="Adapt the rate so that clients wait at most this much longer, such as 10%.",
        ),
    ] = None,
    link: LinkOption = str(NONE),
    log_dir_throttle: Annotated[
        str,
        typer.Option(
            "--replica-alter-log-dirs-throttle",
            metavar="B/S",
            help="Bytes per second for moves between log directories.",
        ),
    ] = str(NONE),
    timeout: TimeoutOption = LOG_DIR_TIMEOUT_MS,
    additional: Annotated[
        bool,
        typer.Option(
            "--additional", help="Start even while other moves run; with the same plan again, change the throttle."
        ),
    ] = False,
    allow_factor: Annotated[
        bool,
        typer.Option(
            "--allow-replication-factor-change", help="Allow partitions to get more or fewer replicas than before."
        ),
    ] = False,
    ignore_space: Annotated[
        bool,
        typer.Option("--ignore-disk-space", help="Do not check that destinations have room for what they receive."),
    ] = False,
    dry_run: DryRunOption = False,
    bootstrap: BootstrapServerOption = None,
    data: DataOption = DEFAULT_DIRECTORY,
    as_json: JsonOption = False,
) -> None:
    """Move partitions to where the plan says.

    The throttle is set with the move. In a Syncline cluster, it ends with the move; Apache Kafka keeps it until
    `verify` finds the move complete. With --deadline or --max-client-impact, the command runs until the move ends and
    adapts the rate; if it is interrupted, `reassign resume` continues.
    """
    from syncline.cli.direct import Direct
    from syncline.cli.reassign.execute import Wishes, run
    from syncline.cli.signals import interrupts

    with interrupts(), sentences(), Direct(bootstrap_of(bootstrap, data)) as cluster:
        wishes = Wishes.of(
            text_of(plan),
            name=named(Path(plan.name)),
            throttle=throttle,
            log_dir_throttle=log_dir_throttle,
            deadline=deadline,
            impact=impact,
            link=link,
            is_additional=additional,
            allows_factor_change=allow_factor,
            ignores_space=ignore_space,
            timeout_ms=timeout,
        )
        code = run(cluster, wishes, bootstrap_of(bootstrap, data), is_dry=dry_run, as_json=as_json)
    if code:
        raise typer.Exit(code)


@app.command(short_help="Say whether moves are complete.")
def verify(
    plan: PlanOption,
    preserve: PreserveOption = False,
    bootstrap: BootstrapServerOption = None,
    data: DataOption = DEFAULT_DIRECTORY,
    as_json: JsonOption = False,
) -> None:
    """Compare where partitions are with where the plan says they should be.

    Like Kafka's tool, this removes throttle configurations once nothing moves in the cluster. In a Syncline cluster,
    throttles end with their moves, so there is nothing to remove, and limits that were set separately stay.
    """
    from syncline.cli.direct import Direct
    from syncline.cli.reassign.cluster_reading import read_ended
    from syncline.cli.reassign.throttle_configs import clear
    from syncline.reassign import texts
    from syncline.reassign.log_dir_states import report, wishes
    from syncline.reassign.plan_file import parse_plan

    with sentences(), Direct(bootstrap_of(bootstrap, data)) as cluster:
        targets = parse_plan(text_of(plan), named(plan))
        topics = {target.key.topic for target in targets}
        wished = wishes(targets)
        state = read_ended(cluster, targets, with_sizes=bool(wished))
        lines = texts.states(targets, state.running, state.replicas())
        directories = report(wished, state.log_dirs, state.failed_directories)
        brokers = sorted({*state.brokers, *(broker for target in targets for broker in target.replicas)})
        clears = not (state.running or preserve or state.owns_throttles) and directories.is_done
        if not as_json:
            say_text([*lines, "\n".join(directories.lines)])
            if clears:
                say_text(texts.clearing(brokers, topics))
        missed = clear(cluster, state, brokers, topics) if clears else []
    if as_json:
        states = {
            str(target.key): "in progress"
            if target.key in state.running
            else "completed"
            if state.replicas().get(target.key) == target.replicas
            else "other replicas"
            for target in sorted(targets)
        }
        print(json.dumps({"partitions": states, "log_dirs": directories.lines, "cleared": clears}))
    if missed:
        raise LocalClusterError(" ".join(missed))


@app.command(short_help="Cancel moves, and return to the replicas of before.")
def cancel(
    plan: PlanOption,
    preserve: PreserveOption = False,
    timeout: TimeoutOption = LOG_DIR_TIMEOUT_MS,
    dry_run: DryRunOption = False,
    bootstrap: BootstrapServerOption = None,
    data: DataOption = DEFAULT_DIRECTORY,
    as_json: JsonOption = False,
) -> None:
    """Cancel the running moves of the plan. Data already copied to new replicas is discarded.

    The throttle of other running moves stays; Kafka's tool removes it.
    """
    from syncline.cli.direct import Direct
    from syncline.cli.reassign.cluster_reading import read_cluster
    from syncline.cli.reassign.move_requests import cancel as cancel_moves
    from syncline.cli.reassign.move_requests import move_log_dirs, still_limited
    from syncline.cli.reassign.throttle_configs import clear
    from syncline.reassign import texts
    from syncline.reassign.log_dir_states import wishes
    from syncline.reassign.plan_file import parse_plan

    with sentences(), Direct(bootstrap_of(bootstrap, data)) as cluster:
        targets = parse_plan(text_of(plan), named(plan))
        topics = {target.key.topic for target in targets}
        wished = wishes(targets)
        state = read_cluster(cluster, with_sizes=bool(wished))
        keys = sorted(target.key for target in targets if target.key in state.running)
        if dry_run:
            print(json.dumps({"would_cancel": list(map(str, keys))}) if as_json else f"would cancel: {_names(keys)}")
            return
        outcome = cancel_moves(cluster, keys) if keys else None
        if outcome is not None and outcome.refused:
            say_text(texts.refusals("Error cancelling partition reassignment for:", outcome.refused))
            raise typer.Exit(1)
        back = {place: state.log_dirs[place].current for place in wished if state.log_dirs.get(place, ("", ""))[1]}
        if back:
            move_log_dirs(cluster, back, timeout)
        print(json.dumps({"cancelled": list(map(str, keys))}) if as_json else texts.cancelled(keys))
        if preserve or state.owns_throttles:
            return
        after = read_cluster(cluster)
        if after.running:
            still_limited(cluster, state, after)
            return
        brokers = sorted({*state.brokers, *(broker for target in targets for broker in target.replicas)})
        if not as_json:
            say_text(texts.clearing(brokers, topics))
        missed = clear(cluster, state, brokers, topics)
    if missed:
        raise LocalClusterError(" ".join(missed))


@app.command("list", short_help="List the partitions that are moving.")
def list_moves(
    bootstrap: BootstrapServerOption = None, data: DataOption = DEFAULT_DIRECTORY, as_json: JsonOption = False
) -> None:
    """List the partitions that are moving: all replicas, those being added and those being removed."""
    from syncline.cli.direct import Direct
    from syncline.cli.reassign.cluster_reading import read_moves
    from syncline.reassign import texts

    with Direct(bootstrap_of(bootstrap, data)) as cluster:
        running, move_of, _ = read_moves(cluster)
    if not as_json:
        say_text(texts.running(running))
        return
    rows = [
        {
            "topic": key.topic,
            "partition": key.partition,
            "replicas": list(each.replicas),
            "adding": list(each.adding),
            "removing": list(each.removing),
            "move": move_of.get(key) or None,
        }
        for key, each in running.items()
    ]
    print(json.dumps(rows))


def _names(keys: list[Any]) -> str:
    return ",".join(map(str, keys)) or "nothing"
