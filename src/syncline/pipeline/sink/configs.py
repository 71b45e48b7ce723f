"""Kafka's producer configurations, as options with the prefix `kafka.`: what each of them means to the sink.

The connector hands them all to Kafka's own producer. The sink is another producer: some apply here, some
have no effect and are named once in the log, and some would break what the sink promises and are refused. Any other
name is an error. Those of encryption and authentication are judged by `client.security_options`.

Source: the producer configurations of Apache Kafka 4.3.
"""

from collections.abc import Mapping
from typing import Final

# Read by `sink.options`.
USED: Final = (
    "bootstrap.servers",
    "client.id",
    "compression.type",
    "delivery.timeout.ms",
    "max.request.size",
    "request.timeout.ms",
    "transaction.timeout.ms",
)

REFUSED: Final[Mapping[str, str]] = {
    "transactional.id": "the sink makes one from the query's id and the task's number; remove it",
    "transaction.two.phase.commit.enable": "the sink ends its transactions by itself; remove it",
    "key.serializer": "write string or binary to the column key; remove it",
    "value.serializer": "write string or binary to the column value; remove it",
    "interceptor.classes": "the sink runs no Java classes; remove it",
    "partitioner.class": "the sink runs no Java classes; put the partition's number into the column partition",
    "partitioner.ignore.keys": "put the partition's number into the column partition, or leave the key out",
}

# What the sink does in their place is in `docs/pipeline.md`.
WITHOUT_MEANING: Final = frozenset(
    {
        "acks",
        "auto.include.jmx.reporter",
        "batch.size",
        "buffer.memory",
        "client.dns.lookup",
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.zstd.level",
        "config.providers",
        "connections.max.idle.ms",
        "enable.idempotence",
        "enable.metrics.push",
        "linger.ms",
        "max.block.ms",
        "max.in.flight.requests.per.connection",
        "metadata.max.age.ms",
        "metadata.max.idle.ms",
        "metadata.recovery.rebootstrap.trigger.ms",
        "metadata.recovery.strategy",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "partitioner.adaptive.partitioning.enable",
        "partitioner.availability.timeout.ms",
        "receive.buffer.bytes",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "retries",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
        "send.buffer.bytes",
        "socket.connection.setup.timeout.max.ms",
        "socket.connection.setup.timeout.ms",
    }
)

PRODUCER: Final = frozenset({*USED, *REFUSED, *WITHOUT_MEANING})
