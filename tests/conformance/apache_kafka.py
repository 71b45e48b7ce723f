"""Apache Kafka for the live recording: three combined nodes on this machine, from Maven's jars.

Needs Java 17 or newer, and Maven for the first start (54 MB of jars, kept below `build/`). `KAFKA_LIB` may name a
directory that has them already. Everything it starts dies with it.
"""

import os
import pathlib
import random
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from tests.conformance.settings import World

HERE = pathlib.Path(__file__).parent
KEPT = HERE.parent.parent / "build" / "apache-kafka"
LIB_VARIABLE = "KAFKA_LIB"
STOP_S = 60.0
PORTS = range(20_000, 32_000)
CLUSTER_ID = "c3luY2xpbmUtY29uZm9ybQ"
LOG_CONFIG = "Configuration:\n  status: error\n  Loggers:\n    Root:\n      level: WARN\n"
PROPERTIES = """\
process.roles=broker,controller
node.id={node}
controller.quorum.voters={voters}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={directory}/data
"""


def jars() -> str:
    """Return the class path, fetching the jars if they are not there."""
    lib = pathlib.Path(os.environ.get(LIB_VARIABLE, KEPT / "lib"))
    if not lib.is_dir():
        maven = shutil.which("mvn")
        assert maven, f"Apache Kafka's jars are needed: install Maven, or name their directory in {LIB_VARIABLE}"
        command = [
            maven,
            "-q",
            "-B",
            "-f",
            str(HERE / "pom.xml"),
            "dependency:copy-dependencies",
            f"-DoutputDirectory={lib}",
        ]
        subprocess.run(command, check=True)
    return f"{lib}/*"


@dataclass(frozen=True)
class KafkaCluster:
    """A running cluster."""

    bootstrap: list[tuple[str, int]]
    processes: "list[subprocess.Popen[bytes]]"

    def stop(self, rank: int) -> None:
        """Stop one node in good order."""
        self.processes[rank].terminate()
        self.processes[rank].wait(STOP_S)


@contextmanager
def running(world: World) -> Iterator[KafkaCluster]:
    """Yield a freshly formatted cluster, and kill it afterwards."""
    classpath = jars()
    brokers = world.brokers
    with tempfile.TemporaryDirectory(prefix="apache-kafka-") as work:
        ports = _free_ports(2 * brokers)
        racks = [{"broker.rack": world.racks[node]} if world.racks else {} for node in range(brokers)]
        files = [
            _write(pathlib.Path(work), node, ports, brokers, {**world.configs, **racks[node]})
            for node in range(brokers)
        ]
        log_config = pathlib.Path(work, "log4j2.yaml")
        log_config.write_text(LOG_CONFIG)
        for file in files:
            command = ["java", "-cp", classpath, "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(file)]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        processes = [_start(classpath, log_config, file) for file in files]
        try:
            yield KafkaCluster([("127.0.0.1", port) for port in ports[:brokers]], processes)
        finally:
            for process in processes:
                process.kill()
            for process in processes:
                process.wait()


def _write(work: pathlib.Path, node: int, ports: list[int], brokers: int, configs: Mapping[str, str]) -> pathlib.Path:
    directory = work / f"node{node}"
    directory.mkdir()
    file = directory / "server.properties"
    fixed = PROPERTIES.format(
        node=node,
        voters=",".join(f"{each}@127.0.0.1:{ports[brokers + each]}" for each in range(brokers)),
        port=ports[node],
        controller_port=ports[brokers + node],
        directory=directory,
    )
    file.write_text(fixed + "".join(f"{key}={value}\n" for key, value in configs.items()))
    return file


def _start(classpath: str, log_config: pathlib.Path, file: pathlib.Path) -> "subprocess.Popen[bytes]":
    command = [
        "java",
        "-Xmx512m",
        "-Xms512m",
        "-XX:+UseG1GC",
        f"-Dlog4j2.configurationFile={log_config}",
        "-cp",
        classpath,
    ]
    with file.with_suffix(".log").open("wb") as log:
        return subprocess.Popen([*command, "kafka.Kafka", str(file)], stdout=log, stderr=subprocess.STDOUT)


def _free_ports(count: int) -> list[int]:
    """Return ports that nobody else takes before Kafka does: the kernel gives none of them to a connection."""
    found: list[int] = []
    while len(found) < count:
        port = random.choice(PORTS)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            if port not in found:
                found.append(port)
    return found
