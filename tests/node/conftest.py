"""Tests that are coroutines run in virtual time, in a `world`."""

import inspect

import pytest

from tests.node.world import World


def pytest_configure(config: pytest.Config) -> None:
    """Know the marker."""
    config.addinivalue_line("markers", "brokers(count, started=None, **config): what the world of a test consists of")


@pytest.fixture
def world(request: pytest.FixtureRequest) -> World:
    """Return a world of one broker, or of as many as the marker `brokers` names."""
    marker = request.node.get_closest_marker("brokers")
    return World() if marker is None else World(*marker.args, **marker.kwargs)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine in its world's virtual time."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    pyfuncitem.funcargs["world"].run(lambda: pyfuncitem.obj(**arguments))
    return True
