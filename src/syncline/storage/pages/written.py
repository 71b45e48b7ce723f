"""What the logs of a data directory share: counts for their append times, and the plan for their pages."""

from syncline.model.ids import TopicPartition
from syncline.storage.pages.write_behind import AskMemory, WriteBehind


class Written:
    """How many bytes a broker has written to its logs, and which logs have append times that are not saved."""

    __slots__ = ("_unsaved", "behind", "total_bytes")

    def __init__(self, ask_memory: AskMemory) -> None:
        # It goes on where the newest append times of a log left it.
        self.total_bytes = 0
        self._unsaved: dict[TopicPartition, None] = {}
        self.behind = WriteBehind(ask_memory)

    def reached(self, total_bytes: int) -> None:
        """Raise the total to what an earlier process had reached."""
        self.total_bytes = max(self.total_bytes, total_bytes)

    def has_times(self, key: TopicPartition) -> None:
        """Record that a log has append times to be saved."""
        self._unsaved[key] = None

    def take_unsaved(self) -> list[TopicPartition]:
        """Return the logs that have append times to be saved, and forget them."""
        keys, self._unsaved = list(self._unsaved), {}
        return keys
