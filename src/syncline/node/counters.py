"""What a broker has done so far, counted where it happens."""


class Counters:
    """Running totals; bytes are those of record batches as stored."""

    __slots__ = ("produced_batches", "produced_bytes", "replicated_in_bytes")

    def __init__(self) -> None:
        self.produced_batches = 0
        self.produced_bytes = 0
        self.replicated_in_bytes = 0

    def produced(self, size_bytes: int) -> None:
        """Count one batch of a client."""
        self.produced_batches += 1
        self.produced_bytes += size_bytes

    def replicated_in(self, size_bytes: int) -> None:
        """Count what was fetched from a leader."""
        self.replicated_in_bytes += size_bytes
