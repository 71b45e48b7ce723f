"""Finding tables that keep the room of entries that are gone."""

import types
from collections import deque
from gc import get_referents
from typing import Any

from syncline.model.tables import has_spare_room

# What a broker refers to that is not its own: code, and the world around it.
_CODE = (type, types.ModuleType, types.FunctionType, types.CodeType)
_WORLD = ("syncline.virtual", "tests", "asyncio", "logging")
_OWNERS_CHARACTERS = 100


def roomy_tables(root: object) -> str:
    """Return the tables within `root` that have room for many more entries than they have: a line of owners each."""
    found, seen = [], {id(root)}
    todo: deque[tuple[Any, str]] = deque([(root, "")])
    while todo:
        each, owners = todo.popleft()
        if isinstance(each, dict) and has_spare_room(each):
            found.append(f"{len(each)} entries:{owners}")
        for referred in get_referents(each):
            if id(referred) not in seen and not _is_foreign(referred):
                seen.add(id(referred))
                todo.append((referred, f"{owners[-_OWNERS_CHARACTERS:]} {type(each).__name__}"))
    return "\n".join(found)


def _is_foreign(value: object) -> bool:
    return isinstance(value, _CODE) or type(value).__module__.startswith(_WORLD)
