"""What all tests share: how they are spread over processes, and in which order they run.

A cluster that tests share lives as long as their room (`scope="package"`): brokers that idle until the end of the run
take a hundredth of a core each.
"""

import gc
import random
import signal
import threading
from collections.abc import Generator
from itertools import groupby
from typing import Any

import hypothesis
import pytest

from syncline.model.compiled import is_compiled

ANY_SEED = -1
# So many objects are made before Python looks for garbage among them.
NEW_OBJECTS_MAX = 10_000


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the order of tests be a random one."""
    parser.addoption(
        "--shuffle",
        type=int,
        nargs="?",
        const=ANY_SEED,
        metavar="SEED",
        help="run modules, and the tests of each, in a random order; the seed is shown, and repeats the order",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Have Hypothesis try the same examples in every run, or others: --hypothesis-seed=N."""
    if config.option.shuffle == ANY_SEED:
        given = getattr(config, "workerinput", {})
        config.option.shuffle = given.get("shuffle") or random.SystemRandom().randrange(1, 1 << 31)
    # A shell starts background jobs with SIGINT ignored, every child inherits that, and tests send SIGINT.
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # No deadline: how long one example takes depends on who else uses the machine.
    is_repeatable = config.getoption("--hypothesis-seed") is None
    hypothesis.settings.register_profile("syncline", deadline=None, derandomize=is_repeatable)
    hypothesis.settings.load_profile("syncline")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Give the seed to each process of pytest-xdist: they have to agree on the order."""
    node.workerinput["shuffle"] = node.config.option.shuffle


def pytest_sessionstart(session: pytest.Session) -> None:
    """Show the seed of a random order."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if session.config.option.shuffle is not None and reporter is not None:
        reporter.write_line(f"random order: --shuffle={session.config.option.shuffle}")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Spread the tests by their scopes."""
    from tests.spreading import Spreading

    config.option.loadscopereorder = False
    return Spreading(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Collect the tests without looking for garbage: half a million objects are made, and nearly all of them stay.

    Later looks leave them out, and are rarer than usual: they took a fifteenth of the time of tests that compute.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(NEW_OBJECTS_MAX, *gc.get_threshold()[1:])
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Shuffle if requested; otherwise several processes begin with what takes longest."""
    if is_compiled():
        for item in items:
            if item.get_closest_marker("interpreted"):
                item.add_marker(pytest.mark.skip(reason="compiled modules keep their methods and constants"))
    if config.option.shuffle is not None:
        rng = random.Random(config.option.shuffle)
        modules = [list(tests) for _, tests in groupby(items, key=lambda item: item.path)]
        rng.shuffle(modules)
        for tests in modules:
            rng.shuffle(tests)
        items[:] = [item for tests in modules for item in tests]
    elif hasattr(config, "workerinput"):
        from tests.spreading import ordered, scope_of

        places = ordered(item.nodeid for item in items)
        items.sort(key=lambda item: places[scope_of(item.nodeid)])
