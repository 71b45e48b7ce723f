"""`up`, `down`, `status`, `broker`: clusters on this machine."""

import json
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from syncline.cli import up
from syncline.cli.target import DataOption, JsonOption
from syncline.cli.times import time_of_day
from syncline.cli.up import checked_configs
from syncline.cli.up_options import DEFAULT_DIRECTORY, SUMMARY
from syncline.local.layout import Layout, LocalClusterError, RunningCluster, is_alive, state_of
from syncline.local.profiles import PROFILES

STOP_TIMEOUT_S = 20.0
SILENCE_S = 2.0

ConfigOption = Annotated[
    list[str] | None, typer.Option("--config", "-c", metavar="NAME=VALUE", help="A broker configuration; repeatable.")
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    # `up` parses its own arguments (cli/up_options.py); typer only lists it, and forwards calls.
    app.command(
        name="up",
        help=SUMMARY,
        short_help="Start a cluster on this machine.",
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
    )(_up)
    app.command()(down)
    app.command()(status)
    app.command()(broker)


def _up(context: typer.Context) -> None:
    up.run(context.args)


def down(data: DataOption = DEFAULT_DIRECTORY, as_json: JsonOption = False) -> None:
    """Stop the cluster of a data directory cleanly."""
    running = _running(data)
    try:
        os.kill(running.supervisor_pid, signal.SIGTERM)
        # A stopped process cannot act on SIGTERM.
        os.kill(running.supervisor_pid, signal.SIGCONT)
    except ProcessLookupError:
        pass
    except PermissionError:
        raise LocalClusterError(
            f"the cluster in {data} (process {running.supervisor_pid}) belongs to another user: stop it as that user."
        ) from None
    began_s = time.monotonic()
    has_spoken = False
    while is_alive(running.supervisor_pid):
        waited_s = time.monotonic() - began_s
        if waited_s > STOP_TIMEOUT_S:
            raise LocalClusterError(
                f"the cluster (process {running.supervisor_pid}) did not stop in {STOP_TIMEOUT_S:.0f} s. "
                f"`kill -9 {running.supervisor_pid}` ends it; no acknowledged record is lost."
            )
        if waited_s > SILENCE_S and not has_spoken:
            has_spoken = True
            print("waiting for brokers to hand over leadership and stop ...", file=sys.stderr)
        time.sleep(0.01)
    print(json.dumps({"stopped": True}) if as_json else "stopped")


def status(data: DataOption = DEFAULT_DIRECTORY, as_json: JsonOption = False) -> None:
    """Show the processes of a running cluster. Exits with 1 unless all of them are running."""
    running = _running(data)
    rows = [
        {
            "broker": broker_id,
            "pid": pid,
            "port": running.client_ports[broker_id],
            "state": state_of(pid),
            "metrics": running.metrics_url(broker_id),
            "failure": running.failures.get(broker_id),
            "deaths": deaths._asdict() if (deaths := running.deaths.get(broker_id)) else None,
        }
        for broker_id, pid in sorted(running.broker_pids.items())
    ]
    if as_json:
        print(json.dumps({"bootstrap": running.bootstrap, "supervisor_pid": running.supervisor_pid, "brokers": rows}))
    else:
        _show(running, rows)
    if any(row["failure"] or row["state"] != "running" for row in rows):
        raise typer.Exit(1)


def _show(running: RunningCluster, rows: Sequence[Mapping[str, Any]]) -> None:
    print(f"bootstrap  {running.bootstrap}")
    for row in rows:
        metrics = f"   {row['metrics']}" if row["metrics"] else ""
        print(f"broker {row['broker']}   port {row['port']}   process {row['pid']}   {row['state']}{metrics}")
    for row in rows:
        if row["failure"]:
            print(f"broker {row['broker']} could not start; it is restarted repeatedly: {row['failure']}")
    for broker_id, (times, last_at_ms, last) in sorted(running.deaths.items()):
        if broker_id not in running.failures:
            how_often = "once" if times == 1 else f"{times} times"
            when = time_of_day(last_at_ms)
            print(
                f"broker {broker_id} has ended {how_often} since the cluster came up, most recently at {when}: {last}"
            )


def broker(
    broker_id: Annotated[int, typer.Argument(help="Id of this broker.", min=0, max=2**31 - 1)],
    data: DataOption = DEFAULT_DIRECTORY,
    port: Annotated[int, typer.Option(help="Port for clients; 0 picks a free port.", min=0, max=65535)] = 9092,
    internal_port: Annotated[
        int, typer.Option(help="Port for other brokers; 0 picks a free port.", min=0, max=65535)
    ] = 0,
    cluster_size: Annotated[int, typer.Option(help="Number of brokers that the cluster should have.", min=1)] = 1,
    config: ConfigOption = None,
    profile: Annotated[
        str | None, typer.Option(metavar="NAME", help=f"A predefined set of configurations: {', '.join(PROFILES)}.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Run one broker in the foreground. Brokers with the same data directory form one cluster."""
    from syncline.local.broker_process import BrokerProcess
    from syncline.local.ports import HOST, listen, listen_between, listen_for_metrics, port_of
    from syncline.model.broker_config import BrokerConfig

    configs = checked_configs(config, profile)
    layout = Layout(data.absolute())
    layout.create()
    resolved = BrokerConfig.resolve(configs)
    backlog = resolved.socket_listen_backlog_size
    client = listen(port, backlog=backlog)
    internal = listen_between(internal_port, resolved)
    metrics = listen_for_metrics([broker_id], resolved.metrics_port, {}).get(broker_id)
    where = f"{HOST}:{port_of(client)}"
    metrics_url = None if metrics is None else f"http://{HOST}:{port_of(metrics)}/metrics"

    def serving() -> None:
        fields = {"broker": broker_id, "bootstrap": where, "pid": os.getpid(), "metrics": metrics_url}
        more = f", metrics {metrics_url}" if metrics_url else ""
        print(json.dumps(fields) if as_json else f"broker {broker_id} serves: bootstrap {where}{more}", flush=True)

    process = BrokerProcess(
        broker_id=broker_id,
        cluster_directory=layout.directory,
        log_directory=layout.broker_directory(broker_id),
        config=configs,
        cluster_size=cluster_size,
        client_listener=client,
        internal=internal,
        metrics_listener=metrics,
        on_serving=serving,
    )
    signal.signal(signal.SIGINT, lambda *_: os.kill(os.getpid(), signal.SIGTERM))
    raise SystemExit(process.run())


def _running(data: Path) -> RunningCluster:
    running = Layout(data.absolute()).running()
    if running is None:
        raise LocalClusterError(
            f"no cluster is running in {data}. Start one with `syncline up`, or name its directory with --data."
        )
    return running
