"""How many bytes a broker has written to its logs."""


class WrittenBytes:
    """A count that all logs of one data directory share; it goes on where the newest append times of a log left it."""

    __slots__ = ("total",)

    def __init__(self) -> None:
        self.total = 0

    def reached(self, total: int) -> None:
        """Take note that it was as high as this in an earlier life."""
        self.total = max(self.total, total)
