"""What the answer to a consumer tells of its lag (KIP-489): a sample per answer, from what its reads have noted."""

import struct
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from syncline.model.ids import NONE
from syncline.node.fetching.row import Row
from syncline.node.fetching.serving import FetchServing
from syncline.node.lag.fetch_lag import WAITING_MAX
from syncline.records.buffers import FileRange

if TYPE_CHECKING:
    from syncline.node.serving.request import Request

# Position of the largest timestamp in a batch header.
MAX_TIMESTAMP_POSITION: Final = 35
_max_timestamp: Final = struct.Struct(">q").unpack_from


def take_samples(serving: FetchServing, request: "Request", rows: Iterable[Row]) -> bool:
    """Take a sample of each partition whose records are answered; return whether there is none, and no error."""
    is_empty = True
    wall_ms = NONE
    waiting = serving.lag.waiting
    for row in rows:
        records = row.records
        if records:
            is_empty = False
            partition, noted = row.partition, row.noted
            if partition is not None and noted is not None:
                if wall_ms < 0:
                    client_id, host = request.client_id, request.connection.client_host
                    wall_ms = serving.clock.wall_ms()
                assert not isinstance(records, FileRange), "records for consumers are read"
                (event_ms,) = _max_timestamp(records, MAX_TIMESTAMP_POSITION)
                size_bytes, missed_bytes = len(records), row.missed_bytes
                waiting.append((client_id, host, partition.key, noted, event_ms, size_bytes, missed_bytes, wall_ms))
        elif row.error or row.preferred >= 0 or row.diverging is not None:
            is_empty = False
    if len(waiting) >= WAITING_MAX:
        serving.lag.count_waiting()
    return is_empty


def take_empty_sample(serving: FetchServing, request: "Request") -> None:
    """Take the sample of an answer without records."""
    serving.lag.waiting.append((request.client_id, request.connection.client_host, None, None, 0, 0, 0, 0))
