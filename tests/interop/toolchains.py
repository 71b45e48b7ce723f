"""How each client's agent is built and started, from nothing but its language's own tools.

What is fetched and built is kept below `.work/interop` under a name that
depends on the sources, so a second run builds nothing. A tool that is not
there, or a download that fails, is a reason to skip that client, never to pass.
An agent of ours that does not compile is a failure, so downloads are steps of
their own.
"""

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
KEPT = ROOT / ".work" / "interop"
LIB_VARIABLE = "SYNCLINE_KAFKA_LIB"
BURROW_VARIABLE = "SYNCLINE_BURROW"
BUILD_TIMEOUT_S = 600
# For one run of a command-line client.
CLIENTS_TIMEOUT_S = 30
# Small and quick to start: these programs live for seconds.
JAVA = ("java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xmx256m")


class MissingError(Exception):
    """A client cannot be had on this machine; the text is the reason to skip its tests."""


class BrokenAgentError(Exception):
    """An agent of ours does not build, though everything that it takes is there; the text is the compiler's."""


@dataclass(frozen=True)
class Launch:
    """How to start an agent."""

    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)


def python(module: str) -> Launch:
    """Return how to start an agent in Python; its library comes with the development requirements."""
    command = [sys.executable, "-m", f"tests.interop.agents.{module}"]
    return Launch(command, {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "PYTHONWARNINGS": "ignore"})


def _tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise MissingError(f"{name} is not installed")
    return found


def _download(command: Sequence[str], where: Path, **environment: str) -> None:
    """Run a step that fetches; without a network the client cannot be had."""
    try:
        done = _run(command, where, environment)
    except subprocess.TimeoutExpired:
        raise MissingError(f"{' '.join(command[:3])} did not end within {BUILD_TIMEOUT_S} s") from None
    if done.returncode:
        raise MissingError(f"{' '.join(command[:3])} failed: {(done.stdout + done.stderr)[-800:]}")


def _compile(command: Sequence[str], where: Path, **environment: str) -> None:
    """Run a step that needs nothing from elsewhere; if it fails, our agent is wrong."""
    done = _run(command, where, environment)
    if done.returncode:
        raise BrokenAgentError(f"{' '.join(command[:3])} failed:\n{(done.stdout + done.stderr)[:8000]}")


def _run(command: Sequence[str], where: Path, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=where,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=BUILD_TIMEOUT_S,
        check=False,
    )


@contextlib.contextmanager
def _only_one(name: str) -> Iterator[None]:
    """Hold a file lock: of several test processes one builds, the others wait and find what it built."""
    KEPT.mkdir(parents=True, exist_ok=True)
    with (KEPT / f"{name}.lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _kept(name: str, sources: Sequence[Path], build: Callable[[Path], None]) -> Path:
    """Return the directory of a build of these sources, building it if there is none."""
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:12]
    directory = KEPT / f"{name}-{digest}"
    with _only_one(name):
        if directory.is_dir():
            return directory
        # Built beside its place and moved there whole, so that an interrupted build leaves nothing that looks done.
        beside = KEPT / f"{name}-{digest}.{os.getpid()}"
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir(parents=True)
        try:
            build(beside)
        except BaseException:
            shutil.rmtree(beside, ignore_errors=True)
            raise
        beside.replace(directory)
    return directory


def go() -> Launch:
    """Return how to start franz-go."""
    _tool("go")
    here = HERE / "go"

    def build(to: Path) -> None:
        # Fails also when the installed Go is older than go.mod asks for.
        _download(["go", "mod", "download"], here, GOTOOLCHAIN="local")
        offline = {"GOTOOLCHAIN": "local", "GOPROXY": "off", "CGO_ENABLED": "0"}
        _compile(["go", "build", "-o", str(to / "agent"), "."], here, **offline)

    built = _kept("go", [here / "main.go", here / "go.mod", here / "go.sum"], build)
    return Launch([str(built / "agent")])


def javascript() -> Launch:
    """Return how to start kafkajs."""
    _tool("node")
    _tool("npm")
    here = HERE / "javascript"
    files = [here / "package.json", here / "package-lock.json"]

    def build(to: Path) -> None:
        for file in files:
            shutil.copy(file, to)
        _download(["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"], to)

    built = _kept("javascript", files, build)
    _compile(["node", "--check", str(here / "agent.js")], here)
    environment = {"NODE_PATH": str(built / "node_modules"), "KAFKAJS_NO_PARTITIONER_WARNING": "1"}
    return Launch(["node", str(here / "agent.js")], environment)


def kafka_jars() -> str:
    """Return the class path of Apache Kafka's clients and tools."""
    named = os.environ.get(LIB_VARIABLE)
    if named:
        return f"{named}/*"
    _tool("java")
    _tool("mvn")
    pom = HERE / "java" / "pom.xml"
    command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies"]
    built = _kept("jars", [pom], lambda to: _download([*command, f"-DoutputDirectory={to}"], HERE))
    return f"{built}/*"


def java(program: str = "Agent") -> Launch:
    """Return how to start the Java client, or another program beside it."""
    _tool("javac")
    jars = kafka_jars()
    sources = sorted((HERE / "java").glob("*.java"))
    command = ["javac", "-cp", jars, "-d"]
    built = _kept("java", sources, lambda to: _compile([*command, str(to), *map(str, sources)], HERE))
    return Launch([*JAVA, "-cp", f"{built}{os.pathsep}{jars}", program])


def console_tools() -> Launch:
    """Return how to start Apache Kafka's console tools."""
    return java("Tools")


def kcat() -> str:
    """Return kcat's path, installing Debian's package where that is possible."""
    found = shutil.which("kcat") or shutil.which("kafkacat")
    if found is None and shutil.which("apt-get") and os.geteuid() == 0:
        quiet = {"DEBIAN_FRONTEND": "noninteractive"}
        with _only_one("kcat"):
            found = shutil.which("kcat")
            if found is None:
                _download(["apt-get", "-q", "update"], HERE, **quiet)
                _download(["apt-get", "-q", "install", "-y", "--no-install-recommends", "kcat"], HERE, **quiet)
                found = shutil.which("kcat")
    if found is None:
        raise MissingError("kcat is not installed and cannot be")
    return found


def promtool() -> str:
    """Return the path of Prometheus's promtool, taken out of Debian's package where that is possible."""
    return _of_prometheus("promtool")


def prometheus() -> str:
    """Return the path of Prometheus itself, from the same package."""
    return _of_prometheus("prometheus")


def _of_prometheus(program: str) -> str:
    found = shutil.which(program)
    if found is not None:
        return found
    _tool("apt-get")
    _tool("dpkg-deb")

    def build(to: Path) -> None:
        if os.geteuid() == 0:
            _download(["apt-get", "-q", "update"], to, DEBIAN_FRONTEND="noninteractive")
        _download(["apt-get", "-q", "download", "prometheus"], to)
        (package,) = to.glob("prometheus_*.deb")
        # The whole of it is hundreds of megabytes.
        _download(["sh", "-c", f"dpkg-deb --fsys-tarfile {package.name} | tar -x ./usr/bin/{program}"], to)
        package.unlink()

    return str(_kept(program, [], build) / "usr" / "bin" / program)


def burrow() -> str:
    """Return the path of Burrow 1.9.5 or later: earlier ones speak versions of ListOffsets that Kafka 4 refuses."""
    named = os.environ.get(BURROW_VARIABLE) or shutil.which("Burrow")
    if named is None:
        raise MissingError(f"Burrow is not installed, and {BURROW_VARIABLE} names no program of version 1.9.5 or later")
    if shutil.which(named) is None:
        raise MissingError(f"{BURROW_VARIABLE} names {named}, which is no program")
    return named


@dataclass
class Client:
    """One client library: its name, how it is had, and what it cannot do (command -> why)."""

    name: str
    launch: Callable[[], Launch]
    cannot: Mapping[str, str] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _outcome: Launch | MissingError | BrokenAgentError | None = field(default=None, repr=False)

    def ready(self) -> Launch:
        """Return how to start it, building it first if need be: tried once, whatever comes of it.

        Raises MissingError when it cannot be had, BrokenAgentError when our part of it is wrong.
        """
        with self._lock:
            if self._outcome is None:
                try:
                    self._outcome = self.launch()
                except (MissingError, BrokenAgentError) as error:
                    self._outcome = error
        if isinstance(self._outcome, Launch):
            return self._outcome
        raise type(self._outcome)(*self._outcome.args)
