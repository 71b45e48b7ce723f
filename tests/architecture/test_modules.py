"""What no linter checks: every module is used, classes and modules stay readable, invariants are asserted."""

import ast
import re
from typing import Final

import pytest

from tests.architecture import syntax

# Long tables, whose rows stand in groups.
TABLES: Final = frozenset({"node/metrics/lag_table.py", "node/metrics/table.py"})
METHODS_MAX: Final = 25
ATTRIBUTES_MAX: Final = 20
LINES_MAX: Final = 500
# In these rooms a class that knows too much becomes a hub.
NO_HUBS_IN: Final = ("core/", "node/")
# Assertions per 100 functions.
DENSITY_MIN: Final = {"core": 30, "storage": 22}


def test_every_module_is_used() -> None:
    """A module that only tests import is dead. Modules that are imported by name appear in a string elsewhere."""
    unused = {path for path in syntax.modules() if path not in syntax.used() and not path.endswith("__.py")}

    assert sorted(unused) == []


def test_no_class_is_a_hub() -> None:
    """A class that exceeds a limit is to be split by idea."""
    sizes = {f"{path}:{each.name}": syntax.size(each) for path, each in syntax.classes() if path.startswith(NO_HUBS_IN)}

    assert {name: size for name, size in sizes.items() if size[0] > METHODS_MAX or size[1] > ATTRIBUTES_MAX} == {}


def test_no_module_is_long() -> None:
    """A module that exceeds the limit holds more than its name says."""
    lengths = {path: len((syntax.SOURCE / path).read_text().splitlines()) for path in syntax.modules()}

    assert {path: lines for path, lines in lengths.items() if lines > LINES_MAX} == {}


@pytest.mark.parametrize("package", DENSITY_MIN)
def test_invariants_are_asserted(package: str) -> None:
    """New functions bring their share of assertions."""
    functions, assertions = len(syntax.functions(package)), syntax.assertions(package)

    assert 100 * assertions / functions >= DENSITY_MIN[package], f"{assertions} assertions in {functions} functions"


def test_assertions_have_messages() -> None:
    """A log with the message tells more than the line that failed."""
    silent = [
        f"{path}:{node.lineno}"
        for path, tree in syntax.modules().items()
        if path.startswith(tuple(DENSITY_MIN))
        for node in ast.walk(tree)
        if isinstance(node, ast.Assert) and node.msg is None
    ]

    assert silent == []


def test_sections_are_modules() -> None:
    """A comment that is a title, between two empty lines, says that a module has parts: they could be modules."""
    banner = re.compile(r"\n\n *# [A-Z][A-Za-z ,'-]{2,60}\.?\n\n")
    titled = {path for path in syntax.modules() if banner.search((syntax.SOURCE / path).read_text())}

    assert titled - TABLES == set()
    assert TABLES - titled == set()


def test_no_function_stands_within_a_method_of_a_named_tuple() -> None:
    """The compiler of the optional build fails at it (docs/compiled-build.md), minutes later than this test."""
    nested = {
        f"{path}:{inner.lineno}"
        for path, each in syntax.classes()
        if any(isinstance(base, ast.Name) and base.id == "NamedTuple" for base in each.bases)
        for method in each.body
        if isinstance(method, syntax.Function)
        for inner in ast.walk(method)
        if inner is not method and isinstance(inner, syntax.Function)
    }

    assert nested == set()
