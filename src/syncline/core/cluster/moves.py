"""Moves: reassignments that were requested together, with the throttle that belongs to them.

A partition's record names the move that owns its reassignment. A move is over with its last one, however that ended:
completed, cancelled, taken over by another request, or gone with its topic. So that no path can leave a move behind, or
its throttle, the controller asks here after every decision, whatever it was about.

Invariant: every move owns a reassignment, and every owner is a move (`invariants`).
Source: ours; in KIP-73, the tool sets throttles, and an operator has to remove them.
"""

import re
from collections.abc import Sequence
from typing import Final

from syncline.model.errors import ErrorCode, RequestError
from syncline.model.ids import NONE
from syncline.model.metadata import Change, MetadataImage, MoveRecord, MoveRemoved

CONTROLS: Final = ("", "deadline", "impact")
_IDS: Final = re.compile(r"[A-Za-z0-9._-]{0,100}")
_NAME_LENGTH_MAX: Final = 250
# So many moves fit into one answer that lists them.
MOVES_MAX: Final = 500


def applied(before: MetadataImage, changes: Sequence[Change], version: int) -> tuple[tuple[Change, ...], MetadataImage]:
    """Return the changes of a decision, with the ends of the moves that it ends, and the image after them."""
    after = before.apply(changes, version)
    if len(after.moves) == len(after.move_sizes):
        return tuple(changes), after
    ended = tuple(MoveRemoved(move_id) for move_id in after.moves if move_id not in after.move_sizes)
    assert ended, f"{list(after.move_sizes)} own reassignments, and only {list(after.moves)} are moves"
    return (*changes, *ended), after.apply(ended, version)


def check_room(image: MetadataImage, move_id: str) -> None:
    """Raise `RequestError` unless a move is known, or there is room for one more."""
    if move_id not in image.moves and len(image.moves) >= MOVES_MAX:
        raise RequestError(
            ErrorCode.POLICY_VIOLATION,
            f"{MOVES_MAX} moves are in progress: wait until one of them is over, or cancel it.",
        )


def check_move(move: MoveRecord) -> None:
    """Raise `RequestError` unless a requested move makes sense."""
    if move.throttle_bytes_per_s != NONE and move.throttle_bytes_per_s <= 0:
        raise _refused(
            f"A move's throttle of {move.throttle_bytes_per_s} B/s would let nothing pass: name at least 1, or -1 for"
            " none."
        )
    if move.control not in CONTROLS:
        raise _refused(f"A move is not controlled by {move.control!r}: name deadline, impact or nothing.")
    if (move.control == "deadline") is not (move.deadline_ms != NONE):
        raise _refused("A move has a deadline exactly if it is controlled by it.")
    if (move.control == "impact") is not (move.impact_percent != NONE):
        raise _refused("A move has a bound on its impact exactly if it is controlled by it.")
    if move.control == "impact" and not 0 <= move.impact_percent <= 100:
        raise _refused(f"The bound on a move's impact is {move.impact_percent} %: name 0 to 100.")
    if not _IDS.fullmatch(move.move_id):
        raise _refused("A move's id has at most 100 letters, digits, '.', '_' and '-'.")
    if len(move.name) > _NAME_LENGTH_MAX:
        raise _refused(f"A move's name has at most {_NAME_LENGTH_MAX} characters.")
    # Terminals of others show it.
    if not move.name.isprintable():
        raise _refused("A move's name has printable characters only.")


def _refused(message: str) -> RequestError:
    return RequestError(ErrorCode.INVALID_REQUEST, message)
