"""What the syntax tree of the source says: modules, classes, functions, imports."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
SOURCE: Final = ROOT / "src" / "syncline"

Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def modules() -> dict[str, ast.Module]:
    """Return the tree of each module by its path below src/syncline."""
    return {
        path.relative_to(SOURCE).as_posix(): ast.parse(path.read_text(), filename=str(path))
        for path in sorted(SOURCE.rglob("*.py"))
    }


def classes() -> Iterator[tuple[str, ast.ClassDef]]:
    """Yield each class with its module's path."""
    for path, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                yield path, node


def size(of: ast.ClassDef) -> tuple[int, int]:
    """Return how many methods and properties a class has, and how many attributes its instances have."""
    return len({node.name for node in of.body if isinstance(node, Function)}), len(attributes(of))


def attributes(of: ast.ClassDef) -> set[str]:
    """Return what instances hold: annotated fields, slots, and all that methods assign to `self`."""
    found = {
        node.target.id
        for node in of.body
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and not ast.unparse(node.annotation).startswith(("ClassVar", "Final"))
    }
    for function in (node for node in of.body if isinstance(node, Function)):
        for node in ast.walk(function):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                found |= {node.attr} if isinstance(node.value, ast.Name) and node.value.id == "self" else set()
    return found


def functions(package: str) -> list[Function]:
    """Return all functions and methods of a package."""
    return [
        node
        for path, tree in modules().items()
        if path.startswith(f"{package}/")
        for node in ast.walk(tree)
        if isinstance(node, Function)
    ]


def assertions(package: str) -> int:
    """Return how many `assert` statements a package has."""
    trees = (tree for path, tree in modules().items() if path.startswith(f"{package}/"))
    return sum(isinstance(node, ast.Assert) for tree in trees for node in ast.walk(tree))


@cache
def used() -> set[str]:
    """Return the paths of all modules that another module imports or names in a string, wherever that stands.

    Strings count because handlers, verbs and schemas are imported when they are first needed, by their names.
    """
    by_suffix: dict[str, set[str]] = {}
    for path in modules():
        parts = ["syncline", *path.removesuffix(".py").removesuffix("/__init__").split("/")]
        for first in range(len(parts)):
            by_suffix.setdefault(".".join(parts[first:]), set()).add(path)
    found = {"__init__.py"}
    for path, tree in {**modules(), "pyspark_syncline": _other_package()}.items():
        for name in _named(tree):
            found |= by_suffix.get(name, set()) - {path}
    return found


def _other_package() -> ast.Module:
    return ast.parse((SOURCE.parent / "pyspark_syncline" / "__init__.py").read_text())


def _named(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
