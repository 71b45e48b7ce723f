"""The note beside a log that is known to be damaged: what was found, and what the log promised by then.

One hard idea: damage must not be forgotten. The next start may scan nothing (after a
clean stop), or judge by checkpoints that a newer log of the same name has
replaced since, and would then serve the log as if it were whole. With a note in
its directory, a log is damaged until the note goes.

Format: one JSON object in the file `damage` of the log's directory. Offsets as in `log.py`.
"""

import json
from typing import Final, NamedTuple

from syncline.model.ids import NONE, Offset, TopicPartition
from syncline.storage.disk import Disk

NOTE_FILE: Final = "damage"


class DamageNote(NamedTuple):
    """What is known of a damaged log."""

    key: TopicPartition
    reason: str
    # What the checkpoints said: everything below the first was flushed, nothing below the second is readable.
    recovery_point: Offset
    log_start: Offset
    # Records from here on were never acknowledged with acks=all; -1: unknown, any record may have been.
    uncommitted_from: Offset = Offset(NONE)

    def encode(self) -> bytes:
        """Return the contents of the file."""
        content = {
            "version": 0,
            "topic": self.key.topic,
            "partition": self.key.partition,
            "reason": self.reason,
            "recovery_point": self.recovery_point,
            "log_start": self.log_start,
            "uncommitted_from": self.uncommitted_from,
        }
        return json.dumps(content, indent=1).encode() + b"\n"


def read_note(disk: Disk, directory: str, key: TopicPartition | None) -> DamageNote | None:
    """Return the note in a log's directory, None if there is none.

    A note that cannot be read still says that the log is damaged; `key` is the partition that the directory's name
    suggests (None: none). A long name may have been shortened, so a note that can be read knows better.
    """
    try:
        data = disk.read_file(f"{directory}/{NOTE_FILE}")
    except FileNotFoundError:
        return None
    try:
        content = json.loads(data)
        return DamageNote(
            TopicPartition(str(content["topic"]), int(content["partition"])),
            str(content["reason"]),
            Offset(int(content["recovery_point"])),
            Offset(int(content["log_start"])),
            Offset(int(content["uncommitted_from"])),
        )
    except (ValueError, KeyError, TypeError):
        if key is None:
            return None
        return DamageNote(key, f"{directory}/{NOTE_FILE} says so, and cannot be read", Offset(0), Offset(0))


def write_note(disk: Disk, directory: str, note: DamageNote) -> None:
    """Put a note into a log's directory; it is safe from a power cut on return. Raises OSError."""
    disk.replace_file(f"{directory}/{NOTE_FILE}", note.encode())
