"""A snapshot: options with which any number of queries, sessions and later jobs read the same records.

    from pyspark_syncline import snapshot

    fixed = snapshot({"bootstrap": "localhost:9092", "subscribe": "flights,airports"})
    spark.read.format("syncline").options(**fixed).load()

Ends are asked for once, one leader after the other, of all partitions that there are then. With `read_committed` they
lie below open transactions, so what is read does not change when these end. The options are text, with passwords if
any were given: a job can keep them as JSON, without those. When records of a snapshot are gone, or its topics were
deleted and created again, queries fail with `DataLossError`, or say so in their rows (`includeGaps`).

Units: offsets count records; ends are exclusive.
"""

import json
from collections.abc import Mapping
from typing import Final

from syncline.model.ids import TopicPartition
from syncline.pipeline.client.cluster import Cluster
from syncline.pipeline.errors import OptionError
from syncline.pipeline.source import names
from syncline.pipeline.source.options import SourceOptions
from syncline.pipeline.source.planning import bounds_of

_REPLACED: Final = frozenset(
    {
        "subscribe",
        "subscribePattern",
        "assign",
        "topicIds",
        *(
            f"{side}{what}"
            for side in ("starting", "ending")
            for what in ("Offsets", "Timestamp", "OffsetsByTimestamp")
        ),
        "startingOffsetsByTimestampStrategy",
    }
)


def snapshot(given: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a batch query with all places fixed: partitions, offsets and topic ids.

    Raises `OptionError` for options that no batch query takes, and `BrokerError` if the brokers cannot be asked.
    """
    options = SourceOptions.parse(given, streaming=False)
    with Cluster(options.client) as cluster:
        bounds = bounds_of(cluster, options)
    if not bounds.starts:
        raise OptionError("there is nothing to read: no topic matches")
    fixed = {name: value for name, value in names.known(given).items() if name not in _REPLACED}
    partitions: dict[str, list[int]] = {}
    for place in sorted(bounds.starts):
        partitions.setdefault(place.topic, []).append(place.partition)
    fixed["assign"] = json.dumps(partitions)
    fixed["startingOffsets"] = _as_json(bounds.starts)
    fixed["endingOffsets"] = _as_json({place: max(end, bounds.starts[place]) for place, end in bounds.ends.items()})
    ids = {topic: bounds.ids[topic] for topic in partitions if bounds.ids.get(topic)}
    if ids:
        fixed["topicIds"] = json.dumps(ids)
    return fixed


def _as_json(offsets: Mapping[TopicPartition, int]) -> str:
    content: dict[str, dict[str, int]] = {}
    for place in sorted(offsets):
        content.setdefault(place.topic, {})[str(place.partition)] = offsets[place]
    return json.dumps(content)
