"""How a query reaches its brokers: the options that become `ClientSettings`.

Units: milliseconds, bytes.
"""

from collections.abc import Mapping
from typing import Final

from syncline.pipeline.client.security_options import security
from syncline.pipeline.client.settings import ClientSettings
from syncline.pipeline.options.bootstrap import bootstrap
from syncline.pipeline.options.values import INT_MAX, count, refuse

_FETCH_BYTES: Final = 8 << 20


def client_settings(options: Mapping[str, str]) -> ClientSettings:
    """Return how to reach the brokers; raise `OptionError` for what cannot be."""
    isolation = options.get("kafka.isolation.level", "read_uncommitted").strip().lower()
    if isolation not in {"read_uncommitted", "read_committed"}:
        refuse("kafka.isolation.level", isolation, "write read_uncommitted or read_committed")
    return ClientSettings(
        bootstrap=bootstrap(options),
        client_id=options.get("kafka.client.id", "syncline-source"),
        read_committed=isolation == "read_committed",
        request_timeout_ms=_int(options, "kafka.request.timeout.ms") or 30_000,
        patience_ms=_int(options, "kafkaConsumer.pollTimeoutMs") or 120_000,
        fetch_bytes_max=_int(options, "fetchBytes") or _int(options, "kafka.max.partition.fetch.bytes") or _FETCH_BYTES,
        bootstrap_timeout_ms=_int(options, "bootstrapTimeoutMs") or 8_000,
        retry_count_min=count(options, "fetchOffset.numRetries", least=0, most=INT_MAX) or 0,
        retry_interval_ms=_int(options, "fetchOffset.retryIntervalMs"),
        security=security(options),
    )


def _int(options: Mapping[str, str], name: str) -> int | None:
    return count(options, name, most=INT_MAX)
