"""Where Syncline answers otherwise than Apache Kafka on purpose, and why.

Patterns are those of shell globs: `sequence` as in `produce.unknown_topic.v*`, `path` as in `reply.api_keys.*`. A
difference that no line covers fails its test; a line that covers nothing fails too.
"""

from dataclasses import dataclass
from typing import Any

ANY = "(any)"


@dataclass(frozen=True)
class Divergence:
    """One intended difference; `step` None means every step, `kafka` limits it to places where Kafka says this."""

    sequence: str
    path: str
    reason: str
    step: int | None = None
    kafka: Any = ANY


OPAQUE = "Syncline decodes no record on its way to the log: what is inside a batch is stored as it was sent."
OWN_TEXT = "Kafka gives a code alone; Syncline also says what was wrong. The codes are equal."
WHOLE_BATCHES = (
    "Kafka fills an answer with a piece of the next batch, which readers throw away; Syncline sends whole ones."
)
EXACT_TABLE = "Syncline advertises exactly what it serves, which is a part of Kafka's table."
OWN_LISTENERS = "Brokers listen for each other, not for a controller, and take no new listeners while they run."
FIXED = "No request changes the levels of loggers; nor is there a telemetry or a newer kind of group to configure."
FROM_THE_ORIGINAL = "A request for a partition that is being reassigned is compared with its original replicas."
STILL_ELIGIBLE = "Cancelling drops nothing that may have committed records: the replica that is away stays eligible."
NO_EMPTY_ITEMS = "Lists of throttled replicas are stored without the empty items that Kafka's brokers cannot read."
RATES_OF_OTHERS = "The throttle rates of a broker are taken at any other, since it may be down when they are needed."
NO_FEATURES = "Syncline has no feature levels; its behaviour comes with its version."

DIVERGENCES: tuple[Divergence, ...] = (
    Divergence("api_versions.*", "reply.api_keys*", EXACT_TABLE),
    Divergence("api_versions.*", "reply.supported_features*", NO_FEATURES),
    Divergence("api_versions.*", "reply.finalized_features*", NO_FEATURES),
    Divergence(
        "produce_requests.null_records.v9",
        "reply",
        "Kafka never answers null records, and nothing else on that connection; Syncline refuses them with 87.",
    ),
    Divergence("produce_*", "reply.responses.*.partition_responses.*.error_message", OWN_TEXT, kafka=None),
    Divergence("idempotence.*", "reply.responses.*.partition_responses.*.error_message", OWN_TEXT, kafka=None),
    Divergence(
        "departed_elections.retry_over_an_election.v9",
        "reply.responses.*.partition_responses.*.error_message",
        OWN_TEXT,
        kafka=None,
    ),
    Divergence("configs.own_facts.v4", "reply.results.0.configs.0.*", OWN_LISTENERS, step=2),
    Divergence("configs.own_facts.v4", "reply.results.0.configs.0.*", OWN_LISTENERS, step=9),
    Divergence("configs.other_kinds*", "reply.results.*.configs.*.read_only", FIXED, kafka=False),
    Divergence(
        "configs.other_kinds*", "reply.results.0.configs.0.value", "The level of the log is another.", kafka="WARN"
    ),
    Divergence("configs.list_edges.v*", "reply.results.*.configs.*value", NO_EMPTY_ITEMS),
    Divergence("configs.brokers_refused.v*", "reply.responses.0.*", RATES_OF_OTHERS, step=3),
    Divergence("configs.incremental_refused.v*", "reply.responses.*.error_message", OWN_TEXT, kafka=None),
    Divergence(
        "introspection.topic_without_a_name.v*",
        "reply.topics*",
        "An empty name is an invalid one; the other topics are described.",
    ),
    Divergence("produce_batches.undecodable.v*", "reply.responses.*", OPAQUE),
    Divergence("produce_batches.wrong_deltas_compressed.v*", "reply.responses.*", OPAQUE),
    Divergence("produce_batches.topic_compresses.v*", "reply.responses.*.records.*", OPAQUE, step=2),
    Divergence("produce_batches.topic_decompresses.v*", "reply.responses.*.records.*", OPAQUE, step=1),
    Divergence("produce_batches.wrong_max_timestamp.v*", "reply.*", OPAQUE),
    Divergence(
        "departed_reassignments.cancelled_with_another_order.v*",
        "reply.topics.0.partitions.0.leader_id",
        "A cancellation restores the order of the replicas.",
        step=3,
    ),
    Divergence("departed_reassignments.back_to_what_it_was.v*", "reply.topics*", FROM_THE_ORIGINAL, step=2),
    Divergence("departed_reassignments.back_to_what_it_was.v*", "reply.topics.*", FROM_THE_ORIGINAL, step=3),
    Divergence("departed_reassignments.offline.v*", "reply.responses.*", STILL_ELIGIBLE, step=2),
    Divergence("departed_reassignments.offline.v*", "reply.topics*", STILL_ELIGIBLE, step=3),
    Divergence(
        "throttles.bad_rates.v*",
        "reply.responses.0.error_message",
        "Kafka does not know these names where it appends; Syncline says that they are no lists. The codes are equal.",
    ),
    Divergence("groups.leaving_while_its_sync_waits.v*", "reply", "Every sync gets an answer.", kafka="silent"),
    Divergence("fetch.partition_limits.v*", "reply.*.cut_bytes", WHOLE_BATCHES),
    Divergence("fetch.request_limits.v*", "reply.*.cut_bytes", WHOLE_BATCHES),
    Divergence("fetch.below_min_bytes.v*", "reply.*.cut_bytes", WHOLE_BATCHES),
)
