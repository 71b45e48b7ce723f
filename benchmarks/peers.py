"""The two clusters that are compared: Syncline's, and Apache Kafka's from Maven's jars.

Both listen on 127.0.0.1, both are started fresh for each measurement that needs
it, and both are always stopped. `Peer.first_ack_s` is the time from the
start of the process to the first acknowledged acks=all produce.
"""

import base64
import json
import os
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

ROOT = Path(__file__).parent.parent
WORK = ROOT / ".work"
KAFKA_VERSION = "4.3.0"
# `CPUCLOCK_SCHED` of the kernel.
_SCHEDULED = 2
POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>syncline.benchmarks</groupId><artifactId>apache-kafka</artifactId><version>1</version><dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{KAFKA_VERSION}</version></dependency>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>{KAFKA_VERSION}</version></dependency>
<dependency><groupId>org.apache.logging.log4j</groupId><artifactId>log4j-slf4j-impl</artifactId><version>2.24.3</version></dependency>
<dependency><groupId>org.apache.logging.log4j</groupId><artifactId>log4j-core</artifactId><version>2.24.3</version></dependency>
</dependencies></project>"""
SERVER = """\
process.roles=broker,controller
node.id={node}
controller.quorum.voters={voters}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={directory}/data
offsets.topic.replication.factor={factor}
transaction.state.log.replication.factor={factor}
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
"""
LOGGING = "Configuration:\n  status: error\n  Loggers:\n    Root:\n      level: WARN\n"


@dataclass
class Peer:
    """A running cluster."""

    name: str
    bootstrap: str
    pids: dict[int, int]
    first_ack_s: float
    processes: list[subprocess.Popen[bytes]]
    directory: Path
    extra: dict[str, float] = field(default_factory=dict)

    def cpu_s(self) -> float:
        """CPU time of all brokers so far, in ns from the scheduler: 10 ms ticks would hide the cost of idling."""
        return sum(_cpu_s(pid) for pid in self.pids.values())

    def rss_mb(self) -> list[float]:
        """Resident memory of each broker."""
        return [psutil.Process(pid).memory_info().rss / 1e6 for pid in self.pids.values()]

    def stop(self, rest_s: float = 6) -> None:
        """Stop the cluster, remove its data, and rest: freshly freed page cache makes the next run look fast."""
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)
        time.sleep(rest_s)


def _cpu_s(pid: int) -> float:
    """Return the CPU time of a process, ended threads included."""
    # The clock of another process, as `clock_getcpuclockid` of the C library computes it on Linux.
    return time.clock_gettime(~pid << 3 | _SCHEDULED)


def start_syncline(
    brokers: int = 3,
    configs: Mapping[str, str] | None = None,
    *,
    restart: bool = False,
    python: str = sys.executable,
) -> Peer:
    """Start Syncline, in this interpreter or another one that has it installed, and produce the first record."""
    directory = WORK / f"syncline-{uuid.uuid4().hex[:8]}"
    directory.mkdir(parents=True)
    command = [python, "-m", "syncline", "up", "--brokers", str(brokers), "--data", str(directory)]
    command += ["--port", "0", "--ready-file", str(directory / "ready.json")]
    settings = {"group.initial.rebalance.delay.ms": "0", **(configs or {})}
    for name, value in settings.items():
        command += ["--config", f"{name}={value}"]
    if not restart:
        command.append("--no-restart")
    began_s = time.monotonic()
    with (directory / "up.log").open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    ready = directory / "ready.json"
    while not ready.exists():
        if process.poll() is not None:
            raise RuntimeError((directory / "up.log").read_text())
        time.sleep(0.002)
    up_s = time.monotonic() - began_s
    description = json.loads(ready.read_text())
    first_acknowledged_produce(description["bootstrap"], min(3, brokers))
    first_ack_s = time.monotonic() - began_s
    pids = {int(broker): pid for broker, pid in description["broker_pids"].items()}
    return Peer("Syncline", description["bootstrap"], pids, first_ack_s, [process], directory, {"up_s": up_s})


def start_kafka(brokers: int = 3, port: int = 29092) -> Peer:
    """Format and start Apache Kafka and produce the first record; needs Java and, once, Maven."""
    jars = kafka_jars()
    directory = WORK / f"kafka-{uuid.uuid4().hex[:8]}"
    directory.mkdir(parents=True)
    (directory / "log4j2.yaml").write_text(LOGGING)
    voters = ",".join(f"{node}@127.0.0.1:{port + 100 + node}" for node in range(brokers))
    # Never a hyphen in front: the tool would take it for an option.
    cluster_id = "K" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")[1:]
    files = []
    began_s = time.monotonic()
    for node in range(brokers):
        file = directory / f"server-{node}.properties"
        file.write_text(
            SERVER.format(
                node=node,
                voters=voters,
                port=port + node,
                controller_port=port + 100 + node,
                directory=directory / f"node-{node}",
                factor=min(3, brokers),
            )
        )
        subprocess.run(
            ["java", "-cp", jars, "kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", file],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        files.append(file)
    format_s = time.monotonic() - began_s
    began_s = time.monotonic()
    options = ["-Xmx512m", "-Xms512m", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"]
    processes = []
    for file in files:
        with file.with_suffix(".log").open("wb") as output:
            processes.append(
                subprocess.Popen(
                    [
                        "java",
                        *options,
                        f"-Dlog4j2.configurationFile={directory}/log4j2.yaml",
                        "-cp",
                        jars,
                        "kafka.Kafka",
                        file,
                    ],
                    stdout=output,
                    stderr=output,
                )
            )
    bootstrap = ",".join(f"127.0.0.1:{port + node}" for node in range(brokers))
    first_acknowledged_produce(bootstrap, min(3, brokers))
    first_ack_s = time.monotonic() - began_s
    pids = {node: process.pid for node, process in enumerate(processes)}
    return Peer("Apache Kafka", bootstrap, pids, first_ack_s, processes, directory, {"format_s": format_s})


def kafka_jars() -> str:
    """Return the class path of Apache Kafka, fetched with Maven once (or named by SYNCLINE_KAFKA_LIB)."""
    named = os.environ.get("SYNCLINE_KAFKA_LIB")
    library = Path(named) if named else WORK / "kafka-lib"
    if not library.exists():
        WORK.mkdir(exist_ok=True)
        (WORK / "pom.xml").write_text(POM)
        subprocess.run(
            ["mvn", "-q", "-B", "-f", WORK / "pom.xml", "dependency:copy-dependencies", f"-DoutputDirectory={library}"],
            check=True,
        )
    return f"{library}/*"


def first_acknowledged_produce(bootstrap: str, factor: int) -> None:
    """Create a topic and produce one record with acks=all, as eagerly as a client can."""
    eager = {"bootstrap.servers": bootstrap, "reconnect.backoff.ms": 5, "reconnect.backoff.max.ms": 50, "log_level": 0}
    admin = AdminClient(eager)
    while True:
        try:
            admin.create_topics([NewTopic("first", 1, factor)], operation_timeout=5, request_timeout=5)[
                "first"
            ].result()
            break
        except KafkaException as error:
            if error.args[0].name() == "TOPIC_ALREADY_EXISTS":
                break
            time.sleep(0.02)
    outcome: list[object] = []
    producer = Producer({**eager, "acks": "all", "linger.ms": 0, "retry.backoff.ms": 20})
    producer.produce("first", b"x", on_delivery=lambda error, _: outcome.append(error))
    producer.flush(60)
    if outcome != [None]:
        raise RuntimeError(f"the first produce failed: {outcome}")
