"""`up`, `down`, `status`, `broker`: clusters on this machine."""

import contextlib
import json
import os
import signal
import time
from pathlib import Path
from typing import Annotated

import typer

from syncline.cli import up
from syncline.cli.up import DEFAULT_DIRECTORY, parse_configs
from syncline.local.layout import Layout, LocalClusterError, RunningCluster, is_alive

STOP_TIMEOUT_S = 20.0

DataOption = Annotated[Path, typer.Option("--data", help="Data directory of the cluster.", show_default=True)]
ConfigOption = Annotated[
    list[str] | None, typer.Option("--config", "-c", metavar="NAME=VALUE", help="A broker configuration; repeatable.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    # `up` parses its own arguments (see cli/up.py); here it is only listed, and passed on if somebody comes this way.
    app.command(
        name="up",
        help=up.SUMMARY,
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
    )(_up)
    app.command()(down)
    app.command()(status)
    app.command()(broker)


def _up(context: typer.Context) -> None:
    up.run(context.args)


def down(data: DataOption = DEFAULT_DIRECTORY, as_json: JsonOption = False) -> None:
    """Stop the cluster of a data directory, in good order."""
    running = _running(data)
    with contextlib.suppress(ProcessLookupError):
        os.kill(running.supervisor_pid, signal.SIGTERM)
    deadline_s = time.monotonic() + STOP_TIMEOUT_S
    while is_alive(running.supervisor_pid):
        if time.monotonic() > deadline_s:
            raise LocalClusterError(
                f"the cluster (process {running.supervisor_pid}) did not stop in {STOP_TIMEOUT_S:.0f} s."
            )
        time.sleep(0.01)
    print(json.dumps({"stopped": True}) if as_json else "stopped")


def status(data: DataOption = DEFAULT_DIRECTORY, as_json: JsonOption = False) -> None:
    """Show the processes of a running cluster."""
    running = _running(data)
    rows = [
        {
            "broker": broker_id,
            "pid": pid,
            "port": running.client_ports[broker_id],
            "state": "running" if is_alive(pid) else "dead",
        }
        for broker_id, pid in sorted(running.broker_pids.items())
    ]
    if as_json:
        print(json.dumps({"bootstrap": running.bootstrap, "supervisor_pid": running.supervisor_pid, "brokers": rows}))
        return
    print(f"bootstrap  {running.bootstrap}")
    for row in rows:
        print(f"broker {row['broker']}   port {row['port']}   process {row['pid']}   {row['state']}")


def broker(
    broker_id: Annotated[int, typer.Argument(help="Id of this broker.", min=0)],
    data: DataOption = DEFAULT_DIRECTORY,
    port: Annotated[int, typer.Option(help="Port for clients; 0: a free one.", min=0, max=65535)] = 9092,
    internal_port: Annotated[int, typer.Option(help="Port for other brokers; 0: a free one.", min=0, max=65535)] = 0,
    cluster_size: Annotated[int, typer.Option(help="How many brokers the cluster is meant to have.", min=1)] = 1,
    config: ConfigOption = None,
) -> None:
    """Run one broker in the foreground. Brokers with the same data directory form one cluster."""
    from syncline.local.broker_process import BrokerProcess
    from syncline.local.ports import listen

    configs = parse_configs(config)
    layout = Layout(data.absolute())
    layout.create()
    process = BrokerProcess(
        broker_id=broker_id,
        cluster_directory=layout.directory,
        log_directory=layout.broker_directory(broker_id),
        config=configs,
        cluster_size=cluster_size,
        client_listener=listen(port),
        internal_listener=listen(internal_port),
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
