"""How many tasks Spark runs at once, passed from the session to the process that plans a query.

Spark runs a data source's planning in a process that knows no session, no configuration and no master: it has the
environment of the JVM, and nothing else. So a session of ours leaves a note there before the JVM starts. Other
sessions leave none, and the number of this machine's processors is a guess.
"""

import os
from dataclasses import dataclass
from typing import Final

_NOTE: Final = "SYNCLINE_SPARK_SLOTS"


@dataclass(frozen=True, slots=True)
class Slots:
    """How many tasks Spark runs at once, and whether that is known or a guess."""

    count: int
    is_guess: bool = False


def slots_of_master(master: str) -> Slots:
    """Return the slots of a Spark master: two of `local[2]`, as many as there are processors of `local[*]`."""
    inside = master.partition("[")[2].rstrip("]").split(",")[0]
    if master.startswith("local") and inside.isdigit():
        return Slots(int(inside))
    return Slots(os.cpu_count() or 2, is_guess=not master.startswith("local"))


def leave_note(master: str) -> None:
    """Pass the number of slots to the processes of a JVM that is about to start, unless it is a guess."""
    slots = slots_of_master(master)
    if slots.is_guess:
        os.environ.pop(_NOTE, None)
    else:
        os.environ[_NOTE] = str(slots.count)


def noted_slots() -> Slots:
    """Return what a session noted in the environment, otherwise a guess."""
    noted = os.environ.get(_NOTE, "")
    return Slots(int(noted)) if noted.isdigit() and int(noted) else Slots(os.cpu_count() or 2, is_guess=True)
