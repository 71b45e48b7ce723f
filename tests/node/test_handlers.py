"""Handlers: the complete list, and that mypy checks each of them against the broker."""

import ast
from pathlib import Path

from syncline.node import handlers


def lists() -> dict[str, list[str]]:
    """Return the two lists of late handlers in the module's source: what is imported, and what is type-checked."""
    tree = ast.parse(Path(handlers.__file__).read_text(encoding="utf-8"))
    found: dict[str, list[str]] = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        if isinstance(node.value, ast.Tuple):
            found[node.target.id] = [ast.unparse(each).strip("'").removesuffix(".handle") for each in node.value.elts]
    return found


def test_every_handler_is_checked_against_the_broker() -> None:
    """A handler that is imported late is in the list whose type says that the broker has what it uses."""
    found = lists()

    assert found["_LATE"]
    assert found["_LATE"] == found["_MODULES"]


def test_every_handler_is_found_by_its_key() -> None:
    """The number in a module's name is the key that it serves."""
    table = handlers.Handlers()
    keys = table.keys()

    assert [] == [key for key in keys if table.get(key) is None]
