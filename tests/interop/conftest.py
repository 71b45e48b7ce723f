"""One cluster for all clients, and one agent process for each client."""

import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.cluster import QUICK_GROUPS, LocalCluster, start_cluster
from tests.interop.agent import Agent
from tests.interop.clients import CLIENTS
from tests.interop.toolchains import BrokenAgentError, Client, Launch, MissingError, console_tools

Tool = Callable[..., str]

# The names of the clients that could be started.
STARTED = pytest.StashKey[dict[str, None]]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this directory."""
    for item in items:
        if item.nodeid.startswith("tests/interop/"):
            item.add_marker(pytest.mark.interop)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Try every client, but for those that have no call for what the test needs."""
    if "client" not in metafunc.fixturenames:
        return
    needed = {need for mark in metafunc.definition.iter_markers("needs") for need in mark.args}
    names = [name for name, client in CLIENTS.items() if not needed & client.cannot.keys()]
    metafunc.parametrize("client", names, indirect=True, scope="session")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say which clients were tried and which were not: a skip is counted and seen."""
    skips = [report for report in terminalreporter.stats.get("skipped", []) if "tests/interop/" in report.nodeid]
    skipped = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in skips)
    started = config.stash.get(STARTED, {})
    if started or skipped:
        terminalreporter.write_line(f"interop: {len(started)} clients ran: {', '.join(started) or 'none'}")
    for reason, tests in skipped.items():
        terminalreporter.write_line(f"interop: {tests} tests SKIPPED: {reason}", yellow=True)


@pytest.fixture(scope="package")
def three_brokers() -> Iterator[LocalCluster]:
    """Three brokers for the tests of this room alone, as some of them kill brokers and pause them."""
    started = start_cluster(brokers=3, configs=QUICK_GROUPS)
    try:
        yield started
    finally:
        started.stop()


class Pool:
    """The agents that are running: one that is kept for each client, and those of single tests."""

    def __init__(self, bootstrap: str, started: dict[str, None]) -> None:
        self.bootstrap = bootstrap
        self.started = started
        self.kept: dict[str, Agent] = {}

    def launch(self, client: Client) -> Launch:
        """Return how to start a client; skip the test if it cannot be had here."""
        try:
            launch = client.ready()
        except MissingError as error:
            pytest.skip(f"{client.name}: {error}")
        self.started[client.name] = None
        return launch

    def start(self, client: Client) -> Agent:
        """Start an agent; skip the test if the client cannot be had here."""
        launch = self.launch(client)
        return Agent(launch.command, self.bootstrap, launch.environment)

    def of(self, client: Client) -> Agent:
        """Return the client's agent, started when it is first needed or when the last one died."""
        kept = self.kept.get(client.name)
        if kept is None or kept.process.poll() is not None:
            self.kept[client.name] = self.start(client)
        return self.kept[client.name]


@pytest.fixture(scope="package")
def pool(request: pytest.FixtureRequest, three_brokers: LocalCluster) -> Iterator[Pool]:
    """Return the agents; those that must be built are built one after the other while the first are tried."""
    parameters = [
        item.callspec.params
        for item in request.session.items
        if isinstance(item, pytest.Function) and hasattr(item, "callspec")
    ]
    wanted = {params.get(role) for params in parameters for role in ("client", "writer")}
    needed = [client for name, client in CLIENTS.items() if name in wanted]
    preparing = threading.Thread(target=_prepare, args=[needed])
    preparing.start()
    running = Pool(three_brokers.bootstrap, request.config.stash.setdefault(STARTED, {}))
    yield running
    for agent in running.kept.values():
        agent.kill()
    preparing.join()


def _prepare(clients: list[Client]) -> None:
    for client in clients:
        with contextlib.suppress(MissingError, BrokenAgentError):  # raised again where the client is needed
            client.ready()


@pytest.fixture(scope="session")
def client(request: pytest.FixtureRequest) -> Client:
    """Return the client on trial."""
    return CLIENTS[request.param]


@pytest.fixture
def agent(client: Client, pool: Pool) -> Agent:
    """Return the agent of the client on trial."""
    return pool.of(client)


@pytest.fixture
def second_agent(client: Client, pool: Pool) -> Iterator[Agent]:
    """Return a second process of the same client, which a test may kill."""
    agent = pool.start(client)
    yield agent
    agent.kill()


_numbers = count(1)


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """Return a name that no other test uses, for a topic or a group."""
    words = request.node.originalname.removeprefix("test_").replace("_", "-")[:60]
    return f"{words}-{next(_numbers)}"


@pytest.fixture(scope="package")
def admin(three_brokers: LocalCluster) -> AdminClient:
    """Return a client that looks at the cluster from outside of the trial."""
    return AdminClient({"bootstrap.servers": three_brokers.bootstrap})


@pytest.fixture(scope="package")
def make_topic(admin: AdminClient) -> Callable[..., str]:
    """Return a function that creates a topic with three replicas."""

    def make(topic: str, partitions: int = 1, **configs: str) -> str:
        # The records say that they are an hour old, and no test wants them to go.
        settings = {"retention.ms": "-1", **configs}
        admin.create_topics([NewTopic(topic, partitions, 3, config=settings)])[topic].result(10)
        return topic

    return make


@pytest.fixture(scope="package")
def tools(pool: Pool) -> Iterator[Agent]:
    """Return one virtual machine in which Apache Kafka's tools run, one after the other."""
    agent = pool.start(Client("console tools", console_tools))
    yield agent
    agent.kill()


@pytest.fixture
def run(tools: Agent, three_brokers: LocalCluster) -> Tool:
    """Return a function that runs a tool on the brokers and returns what it wrote."""

    def run_tool(tool: str, *arguments: str, text: str = "", status: int = 0) -> str:
        full = ["--bootstrap-server", three_brokers.bootstrap, *arguments]
        ended = tools.do(tool, arguments=full, input=text)
        assert status == ended["status"], f"{ended['output']}\n{tools.said()}"
        return ended["output"]

    return run_tool
