"""`up`, `down`, `status`, `broker`: clusters on this machine."""

import json
import logging
import os
import signal
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from syncline.local.layout import Layout, LocalClusterError, RunningCluster, is_alive
from syncline.local.profiles import PROFILES

DEFAULT_DIRECTORY = Path("syncline-data")
STOP_TIMEOUT_S = 20.0

DataOption = Annotated[Path, typer.Option("--data", help="Data directory of the cluster.", show_default=True)]
ConfigOption = Annotated[
    list[str] | None, typer.Option("--config", "-c", metavar="NAME=VALUE", help="A broker configuration; repeatable.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(up)
    app.command()(down)
    app.command()(status)
    app.command()(broker)


def parse_configs(pairs: list[str] | None, profile: str | None = None) -> dict[str, str]:
    """Return configurations from NAME=VALUE pairs over a profile's."""
    if profile is not None and profile not in PROFILES:
        raise LocalClusterError(f"there is no profile {profile!r}. Known: {', '.join(PROFILES)}.")
    configs = dict(PROFILES[profile]) if profile else {}
    for pair in pairs or []:
        name, separator, value = pair.partition("=")
        if not separator or not name:
            raise LocalClusterError(f"--config takes NAME=VALUE, not {pair!r}.")
        configs[name.strip()] = value.strip()
    return configs


def up(
    brokers: Annotated[int, typer.Option(help="How many brokers.", min=1, max=64)] = 3,
    data: DataOption = DEFAULT_DIRECTORY,
    port: Annotated[
        int | None,
        typer.Option(
            help="Port of the first broker; the others follow. 0: free ports. Default: as last time, or 9092.",
            min=0,
            max=65535,
        ),
    ] = None,
    config: ConfigOption = None,
    profile: Annotated[str | None, typer.Option(help=f"A set of configurations: {', '.join(PROFILES)}.")] = None,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Return once the cluster is up; stop it with `down`.")
    ] = False,
    ready_file: Annotated[
        Path | None, typer.Option(help="Write this file (JSON: bootstrap, process ids) once the cluster is up.")
    ] = None,
    restart: Annotated[
        bool, typer.Option("--restart/--no-restart", help="Start a broker again when its process dies.")
    ] = True,
    as_json: JsonOption = False,
) -> None:
    """Start a cluster on this machine and keep it running until Ctrl-C (or `down`)."""
    from syncline.local.supervisor import ClusterSpec, Supervisor, run_detached, write_ready_file
    from syncline.model.configs import BrokerConfig

    configs = parse_configs(config, profile)
    BrokerConfig.resolve(configs)
    spec = ClusterSpec(directory=data.absolute(), brokers=brokers, port=port, config=configs, restart=restart)
    if detach:
        _print_running(run_detached(spec, ready_file.absolute() if ready_file else None), as_json=as_json)
        return
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")

    def announce(running: RunningCluster) -> None:
        if ready_file is not None:
            write_ready_file(ready_file, running)
        _print_running(running, as_json=as_json)
        if not as_json:
            print("Ctrl-C stops it.", flush=True)

    raise SystemExit(Supervisor(spec, announce).run())


def down(data: DataOption = DEFAULT_DIRECTORY, as_json: JsonOption = False) -> None:
    """Stop the cluster of a data directory, in good order."""
    running = _running(data)
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


def _print_running(running: RunningCluster, *, as_json: bool) -> None:
    if as_json:
        print(
            json.dumps(
                {
                    "bootstrap": running.bootstrap,
                    "supervisor_pid": running.supervisor_pid,
                    "broker_pids": running.broker_pids,
                }
            ),
            flush=True,
        )
        return
    count = len(running.broker_pids)
    print(f"{count} broker{'s are' if count > 1 else ' is'} up: bootstrap {running.bootstrap}", flush=True)
    sys.stdout.flush()
