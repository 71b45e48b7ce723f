"""What the tests of this room leave as they found it."""

from collections.abc import Iterator

import pytest

from tests.architecture import syntax


@pytest.fixture(scope="package", autouse=True)
def trees_are_dropped() -> Iterator[None]:
    """Drop the syntax trees: with a million objects, each look for garbage in later tests took more than a second."""
    yield
    syntax.modules.cache_clear()
