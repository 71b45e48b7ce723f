"""`up`: start a cluster on this machine.

Tests wait for this command, so its start-up time counts, and brokers are forked
from it, so its memory counts: what parses its arguments is forgotten
(`cli.up_options`).
"""

import gc
import json
import logging
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from syncline.cli.signals import interruptible
from syncline.cli.up_options import parse
from syncline.local.layout import Layout, LocalClusterError, RunningCluster, write_ready_file
from syncline.local.profiles import PROFILES

# Options of `up` and `broker` set these.
DECIDED: Final = {
    "node.id": "the id of the broker",
    "broker.id": "the id of the broker",
    "listeners": "--port",
    "advertised.listeners": "--port",
    "log.dir": "--data",
    "log.dirs": "--data",
    "inter.broker.listener.name": "the broker",
    "listener.security.protocol.map": "the broker",
    "process.roles": "the broker",
}


def checked_configs(pairs: list[str] | None, profile: str | None = None) -> dict[str, str]:
    """Return broker configurations that a broker accepts; raise `LocalClusterError` for others."""
    from syncline.model.broker_config import BrokerConfig
    from syncline.model.config_types import ConfigError

    configs = parse_configs(pairs, profile)
    for name in configs:
        if name in DECIDED:
            raise LocalClusterError(f"--config cannot set {name}: {DECIDED[name]} decides it.")
    try:
        resolved = BrokerConfig.resolve(configs)
    except ConfigError as error:
        raise LocalClusterError(f"{error}{_like_it(configs)}") from None
    if resolved.broker_session_timeout_ms < 2 * resolved.broker_heartbeat_interval_ms:
        raise LocalClusterError(
            f"broker.session.timeout.ms ({resolved.broker_session_timeout_ms}) must be at least twice "
            f"broker.heartbeat.interval.ms ({resolved.broker_heartbeat_interval_ms}): otherwise the "
            "controller would give brokers up between two heartbeats."
        )
    return configs


def _like_it(names: Iterable[str]) -> str:
    """Return a hint for an unknown name, "" if all are known."""
    import difflib

    from syncline.model.broker_config import BROKER_CONFIGS

    for name in names:
        if name not in BROKER_CONFIGS:
            close = difflib.get_close_matches(name, BROKER_CONFIGS, 1)
            return f". Did you mean {close[0]}?" if close else ""
    return ""


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


def run(arguments: Sequence[str]) -> None:
    """Run the command; ends the process."""
    # Imports leave no garbage, and collecting it would take a tenth of the start; the supervisor enables it again.
    gc.disable()
    options = parse(arguments)
    from syncline.local.supervisor import ClusterSpec, Supervisor

    ready_file = options.ready_file.absolute() if options.ready_file else None
    if ready_file is not None and not ready_file.parent.is_dir():
        raise LocalClusterError(f"cannot write the ready file {ready_file}: there is no directory {ready_file.parent}.")
    spec = ClusterSpec(
        directory=options.data.absolute(),
        brokers=options.brokers,
        ports=options.port,
        config=checked_configs(options.config, options.profile),
        racks=options.racks,
        restart=options.restart,
    )
    missing = _missing(Layout(spec.directory).remembered_configs(), spec.configured)
    # Those of clients' configurations.
    remembered = {} if options.port else Layout(spec.directory).remembered_ports()
    if options.detach:
        from syncline.local.detached import run_detached

        interruptible()
        running = run_detached(spec, ready_file, lambda text: print(text, file=sys.stderr))
        _announce(running, remembered, missing, as_json=options.json)
        # The others serve, but who asked for a cluster has not got all of it.
        raise SystemExit(1 if running.failures else 0)
    logging.basicConfig(level=logging.WARNING, format="%(message)s")

    def announce(running: RunningCluster) -> None:
        if ready_file is not None:
            write_ready_file(ready_file, running)
        try:
            _announce(running, remembered, missing, as_json=options.json, more="\nCtrl-C stops it.")
        except BrokenPipeError:
            # The reader of this output is gone, but the cluster may still have users.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    raise SystemExit(Supervisor(spec, announce).run())


def _missing(before: Mapping[str, str], now: Mapping[str, str]) -> str:
    """Return the options of the last start for what this one leaves at its default, "" without any."""
    gone = {name: value for name, value in before.items() if name not in now}
    if not gone:
        return ""
    import shlex

    racks = gone.pop("broker.rack", "")
    options = [f"--config {shlex.quote(f'{name}={value}')}" for name, value in gone.items()]
    return " ".join([*options, *([f"--racks {shlex.quote(racks)}"] if racks else [])])


def _announce(
    running: RunningCluster, remembered: Mapping[int, int], missing: str, *, as_json: bool, more: str = ""
) -> None:
    if missing:
        print(
            f"these options of the last start were not given now and are not in effect: {missing}",
            file=sys.stderr,
            flush=True,
        )
    for broker_id, port in running.client_ports.items():
        if remembered.get(broker_id, port) != port:
            taken = f"its last port, {remembered[broker_id]}, is in use"
            print(
                f"broker {broker_id} uses port {port}, now and at the next start: {taken} (--port insists on a port)",
                file=sys.stderr,
                flush=True,
            )
    if as_json:
        print(
            json.dumps(
                {
                    "bootstrap": running.bootstrap,
                    "supervisor_pid": running.supervisor_pid,
                    "broker_pids": running.broker_pids,
                    **({"failures": running.failures} if running.failures else {}),
                }
            ),
            flush=True,
        )
        return
    count = len(running.broker_pids) - len(running.failures)
    print(f"{count} broker{'s are' if count > 1 else ' is'} up: bootstrap {running.bootstrap}{more}", flush=True)
    for broker_id, why in running.failures.items():
        print(f"broker {broker_id} is not up; it is restarted repeatedly: {why}", file=sys.stderr, flush=True)
