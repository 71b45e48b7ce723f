"""What the answer to a consumer tells of its lag (KIP-489): counted once per answer, from what its reads told."""

import struct
from collections.abc import Iterable
from typing import Final

from syncline.node.fetching.row import Row
from syncline.node.lag.fetch_lag import Reader

# Position of the largest timestamp in a batch header.
MAX_TIMESTAMP_POSITION: Final = 35
_MAX_TIMESTAMP: Final = struct.Struct(">q")


def count_lag(reader: Reader, rows: Iterable[Row], wall_ms: int) -> bool:
    """Count each partition whose records are answered; return whether there is one, or an error."""
    is_empty = True
    for row in rows:
        if row.records:
            is_empty = False
            partition, facts = row.partition, row.facts
            if partition is not None and facts is not None:
                (event_ms,) = _MAX_TIMESTAMP.unpack_from(row.records, MAX_TIMESTAMP_POSITION)
                reader.cell(partition.key.topic).note(facts, event_ms, len(row.records), wall_ms)
        elif row.error or row.preferred >= 0 or row.diverging is not None:
            is_empty = False
    return not is_empty
