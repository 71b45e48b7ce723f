"""All sequences, in a stable order."""

import importlib
import pkgutil

from tests.conformance import sequences
from tests.conformance.settings import STEADY
from tests.conformance.steps import DECLARED, Sequence


def collect() -> list[Sequence]:
    """Return every declared sequence; names are `module.function.vN`, or `module.function` without versions."""
    found: list[Sequence] = []
    for module in sorted(each.name for each in pkgutil.iter_modules(sequences.__path__)):
        path = f"{sequences.__name__}.{module}"
        world = getattr(importlib.import_module(path), "WORLD", STEADY)
        for declared in DECLARED.get(path, []):
            assert declared.build.__doc__, f"{declared.build} says nothing about itself"
            for version in declared.versions:
                name = f"{module}.{declared.build.__name__}.v{version}"
                about = declared.build.__doc__.strip().splitlines()[0]
                found.append(Sequence(name, about, declared.topics, tuple(declared.build(version)), world))
    names = [each.name for each in found]
    assert len(names) == len(set(names)), "names of sequences are unique"
    return found
