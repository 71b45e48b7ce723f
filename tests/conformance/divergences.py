"""Where Syncline answers otherwise than Apache Kafka on purpose, and why.

Patterns are those of shell globs: `sequence` as in `produce.unknown_topic.v*`, `path` as in `reply.api_keys.*`. A
difference that no line covers fails its test; a line that covers nothing fails too.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Divergence:
    """One intended difference; `step` None means every step."""

    sequence: str
    path: str
    reason: str
    step: int | None = None


DIVERGENCES: tuple[Divergence, ...] = (
    Divergence(
        "api_versions.*",
        "reply.api_keys*",
        "Syncline advertises exactly what it serves, which is a part of Kafka's table.",
    ),
    Divergence(
        "api_versions.*",
        "reply.supported_features*",
        "Syncline has no feature levels; its behaviour comes with its version.",
    ),
    Divergence(
        "api_versions.*",
        "reply.finalized_features*",
        "Syncline has no feature levels; its behaviour comes with its version.",
    ),
    Divergence(
        "produce_requests.null_records.v9",
        "reply",
        "Kafka never answers null records and blocks the connection; Syncline says 87.",
    ),
)
