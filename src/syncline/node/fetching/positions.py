"""What a consumer's fetch tells of where it reads: its position in each partition that the request looks at first."""

from collections.abc import Iterable

from syncline.node.fetching.row import Row
from syncline.node.lag.read_positions import ReadPositions
from syncline.node.serving.request import Request


def note_positions(positions: ReadPositions, request: Request, rows: Iterable[Row], now_ms: int) -> None:
    """Remember from where each partition is fetched that this broker serves to this consumer."""
    connection = request.connection
    reading = positions.reading(request.client_id, connection.client_host, connection.holding, now_ms)
    if reading is None:
        return
    known = reading.positions.get
    for row in rows:
        partition = row.partition
        if partition is None or row.error:
            continue
        key = partition.key
        if row.preferred >= 0:
            # It reads from another replica from now on.
            positions.forget(reading, key)
            continue
        noted = known(key)
        if noted is None:
            positions.add(reading, key, row.entry.fetch_offset, now_ms)
        else:
            # As `ReadPositions.note`, in line: each partition of each fetch comes here.
            noted[0], noted[1] = row.entry.fetch_offset, now_ms
