"""Reasons: why the controller took a decision, as data.

A journal event carries a `Reason` and, in its evidence, the numbers that belong to it. Readers compare reasons, never
text; one place makes sentences from both (`explain.words.wording`).

The values are written to the journal and are stable: one may be added at any time, none may change its meaning.
A reader treats a value that it does not know, and text written before version 2, as `UNKNOWN`.
"""

from enum import StrEnum
from typing import Final


class Reason(StrEnum):
    """Why the controller took a decision; the numbers that come with it are named beside it."""

    # About brokers.
    REGISTERED = "registered"
    REGISTERED_AGAIN = "registered-again"
    REGISTERED_AFTER_CLEAN_STOP = "registered-after-clean-stop"
    REGISTERED_WITHOUT_PROOF = "registered-without-proof-of-clean-stop"
    # A new process replaced the old one in every ISR (quick.bounce.enable).
    BOUNCED = "bounced"
    CAUGHT_UP_WITH_METADATA = "caught-up-with-metadata"
    SESSION_TIMED_OUT = "session-timed-out"  # timeout_ms, silent_ms
    PROCESS_GONE = "process-gone"
    LEASE_HOLDER_SILENT = "lease-holder-silent"
    ASKED_TO_BE_FENCED = "asked-to-be-fenced"
    STOP_ANNOUNCED = "stop-announced"
    STOP_GRANTED = "stop-granted"
    STOPPED_TOGETHER = "stopped-together"
    LOGS_FAILED = "logs-failed"  # failed_count
    LOGS_HEALED = "logs-healed"  # failed_count
    DISK_FULL = "disk-full"
    NO_DESCRIPTORS = "no-descriptors"
    LOGS_DAMAGED = "logs-damaged"  # damaged_count
    DISK_WRITABLE = "disk-writable"

    # About partitions.
    CREATED = "created"
    DELETED = "deleted"
    PROPOSED_BY_LEADER = "proposed-by-leader"
    RELINQUISHED = "relinquished-by-leader"
    PREFERRED_REPLICA_BACK = "preferred-replica-back"
    PREFERRED_REQUESTED = "preferred-election-requested"
    UNCLEAN_REQUESTED = "unclean-election-requested"
    UNCLEAN_ALLOWED = "unclean-election-allowed"
    MEMBER_ABSENT = "member-absent"
    REASSIGNMENT_REQUESTED = "reassignment-requested"
    REASSIGNMENT_CANCELLED = "reassignment-cancelled"
    REASSIGNMENT_COMPLETED = "reassignment-completed"

    # About the cluster.
    CONTROLLER_TOOK_OVER = "controller-took-over"
    CONFIGS_ALTERED = "configs-altered"
    PRODUCER_IDS_ALLOCATED = "producer-ids-allocated"

    UNKNOWN = "unknown"


# Reasons for which a stopping broker leaves.
STOPS: Final = frozenset({Reason.STOP_ANNOUNCED, Reason.STOP_GRANTED, Reason.STOPPED_TOGETHER})
# Reasons for which a replica leaves the ISR although its broker stays.
UNFIT: Final = frozenset({Reason.DISK_FULL, Reason.NO_DESCRIPTORS, Reason.LOGS_DAMAGED, Reason.LOGS_FAILED})
# Reasons of elections that an administrator or the balancer requested: nothing was wrong.
WANTED: Final = frozenset(
    {
        Reason.CREATED,
        Reason.PREFERRED_REPLICA_BACK,
        Reason.PREFERRED_REQUESTED,
        Reason.UNCLEAN_REQUESTED,
        Reason.REASSIGNMENT_REQUESTED,
        Reason.REASSIGNMENT_CANCELLED,
        Reason.REASSIGNMENT_COMPLETED,
    }
)


def reason_of(value: object) -> Reason:
    """Return the reason that an event carries; `UNKNOWN` for a value that this reader does not know."""
    return _BY_VALUE.get(value, Reason.UNKNOWN) if isinstance(value, str) else Reason.UNKNOWN


_BY_VALUE: Final[dict[str, Reason]] = {each.value: each for each in Reason}
