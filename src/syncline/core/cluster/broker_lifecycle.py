"""The life of a broker in the cluster: registered, unfenced, leaving, fenced.

A registration names an incarnation: one process. The same incarnation may register again (its answer was lost) and
keeps its epoch. Another incarnation with the same broker id replaces it only when the old process is gone or its
session is over. It starts fenced; unless it proves that its predecessor stopped cleanly, the controller assumes that
all unsynced records are lost (KIP-966).

Fencing is always safe, even on a wrong suspicion: epochs keep a fenced broker from doing harm, and its next heartbeat
unfences it.

Units: monotonic milliseconds; versions as in `model.metadata`.
Source: KIP-631 (states and heartbeats), KIP-841, KIP-966.
"""

from enum import Enum
from typing import Final, NamedTuple

from syncline.core.cluster.broker_sessions import BrokerSessions
from syncline.core.cluster.decision import Decision, Why
from syncline.core.cluster.elections import at_rest
from syncline.core.cluster.standing import (
    leads_any,
    partitions_failing,
    partitions_of_other_fitness,
    partitions_with,
    partitions_without,
)
from syncline.model.broker_config import BrokerConfig
from syncline.model.errors import ErrorCode
from syncline.model.ids import NONE, BrokerEpoch, BrokerId
from syncline.model.impairments import LogReport, Refusal
from syncline.model.metadata import BrokerChanged, BrokerRecord, Change, MetadataImage, PartitionsChanged
from syncline.model.reasons import Reason


class BrokerState(Enum):
    """The state of a broker in the controller's view."""

    FENCED = "fenced"
    UNFENCED = "unfenced"
    CONTROLLED_SHUTDOWN = "controlled-shutdown"
    SHUTDOWN_NOW = "shutdown-now"


class Registration(NamedTuple):
    """What a broker process reports about itself when it starts."""

    broker_id: BrokerId
    incarnation_id: str
    host: str
    port: int
    internal_host: str
    internal_port: int
    rack: str | None = None
    cluster_id: str = ""
    previous_broker_epoch: int = NONE


class RegistrationAnswer(NamedTuple):
    """The broker's epoch, or why the controller refuses the registration."""

    error: ErrorCode
    broker_epoch: BrokerEpoch


class HeartbeatAnswer(NamedTuple):
    """The controller's view of a broker, for that broker."""

    error: ErrorCode
    is_caught_up: bool = False
    is_fenced: bool = True
    should_shut_down: bool = False


_NO_EPOCH = BrokerEpoch(NONE)
_NOTHING_WRONG: Final = LogReport()

# Why a heartbeat moves a broker into a state.
_MOVES: Final = {
    BrokerState.FENCED: Reason.ASKED_TO_BE_FENCED,
    BrokerState.UNFENCED: Reason.CAUGHT_UP_WITH_METADATA,
    BrokerState.CONTROLLED_SHUTDOWN: Reason.STOP_ANNOUNCED,
    BrokerState.SHUTDOWN_NOW: Reason.STOP_GRANTED,
}


def register(
    image: MetadataImage,
    sessions: BrokerSessions,
    registration: Registration,
    settings: BrokerConfig,
    *,
    version: int,
    now_ms: int,
    predecessor_gone: bool = False,
) -> Decision[RegistrationAnswer]:
    """Return the registration's outcome; its epoch is `version`, that of the batch.

    `predecessor_gone`: there is evidence that the previously registered process has ended; otherwise the controller
    assumes that it is alive until its session ends. With `quick.bounce.enable` a new process replaces the old one in
    every in-sync set regardless, which hides the restart from clients and leaders.
    """
    if registration.cluster_id and registration.cluster_id != image.cluster_id:
        return Decision((), RegistrationAnswer(ErrorCode.INCONSISTENT_CLUSTER_ID, _NO_EPOCH))
    broker_id = registration.broker_id
    known = image.brokers.get(broker_id)
    if known is not None and known.incarnation_id == registration.incarnation_id:
        sessions.touch(broker_id, now_ms)
        amended = _record(registration, known.broker_epoch)._replace(
            fenced=known.fenced, shutting_down=known.shutting_down, failed=known.failed, impaired=known.impaired
        )
        changes: tuple[Change, ...] = () if amended == known else (BrokerChanged(amended),)
        return Decision(changes, RegistrationAnswer(ErrorCode.NONE, known.broker_epoch), Why(Reason.REGISTERED_AGAIN))
    is_bounce = settings.quick_bounce_enable
    is_alive = known is not None and not known.fenced and sessions.is_valid(broker_id, now_ms)
    if is_alive and not predecessor_gone and not is_bounce:
        return Decision((), RegistrationAnswer(ErrorCode.DUPLICATE_BROKER_REGISTRATION, _NO_EPOCH))
    broker_epoch = BrokerEpoch(version)
    assert known is None or known.broker_epoch < version, f"epoch {version} follows {known}"
    sessions.begin(broker_id, broker_epoch, now_ms)
    changes = (BrokerChanged(_record(registration, broker_epoch)),)
    reason = Reason.REGISTERED
    if known is not None and is_bounce:
        reason = Reason.BOUNCED
    elif known is not None:
        stopped_cleanly = registration.previous_broker_epoch == known.broker_epoch
        lost_data = settings.eligible_leader_replicas_enable and not stopped_cleanly
        changes += partitions_without(image, broker_id, settings, lost_data=lost_data, is_whole=stopped_cleanly)
        reason = Reason.REGISTERED_AFTER_CLEAN_STOP if stopped_cleanly else Reason.REGISTERED_WITHOUT_PROOF
    return Decision(changes, RegistrationAnswer(ErrorCode.NONE, broker_epoch), Why(reason))


def heartbeat(
    image: MetadataImage,
    sessions: BrokerSessions,
    broker_id: BrokerId,
    broker_epoch: int,
    settings: BrokerConfig,
    *,
    metadata_version: int,
    want_fence: bool,
    want_shut_down: bool,
    version: int,
    now_ms: int,
    logs: LogReport = _NOTHING_WRONG,
    is_starting: bool = False,
) -> Decision[HeartbeatAnswer]:
    """Return the outcome of a heartbeat; `version` is that of the batch, if it changes anything.

    `logs` is what is wrong with the broker's disk and logs. While the cluster `is_starting`,
    partitions at rest wait for their in-sync sets.
    """
    record = image.brokers.get(broker_id)
    if record is None:
        return Decision((), HeartbeatAnswer(ErrorCode.BROKER_ID_NOT_REGISTERED))
    if record.broker_epoch != broker_epoch:
        return Decision((), HeartbeatAnswer(ErrorCode.STALE_BROKER_EPOCH))
    session = sessions.of(broker_id)
    if session is None or session.broker_epoch != broker_epoch:
        session = sessions.begin(broker_id, record.broker_epoch, now_ms)
    sessions.touch(broker_id, now_ms)
    sessions.saw_metadata(broker_id, record.broker_epoch, metadata_version)
    reported_before = record
    lost = _changed_logs(image, record, logs, settings)
    if lost:
        image = image.apply(lost, version)
        record = image.brokers[broker_id]
    before = state_of(record)
    after = _next_broker_state(
        image,
        sessions,
        record,
        metadata_version=metadata_version,
        want_fence=want_fence,
        want_shut_down=want_shut_down,
    )
    is_unfenced = before is BrokerState.FENCED and after is BrokerState.UNFENCED
    assert not is_unfenced or metadata_version >= broker_epoch, (
        f"broker {broker_id} is unfenced at version {metadata_version}, before its registration {broker_epoch}"
    )
    assert before is not BrokerState.CONTROLLED_SHUTDOWN or after is not BrokerState.UNFENCED, (
        f"broker {broker_id} serves again without a new registration"
    )
    changes: tuple[Change, ...] = lost
    if after is not before:
        changes += _move(image, record, after, settings, is_starting=is_starting)
    if after is BrokerState.CONTROLLED_SHUTDOWN and session.shutdown_version is None:
        session.shutdown_version = version if changes else image.version
    answer = HeartbeatAnswer(
        ErrorCode.NONE,
        is_caught_up=metadata_version >= record.broker_epoch,
        is_fenced=after in {BrokerState.FENCED, BrokerState.SHUTDOWN_NOW},
        should_shut_down=after is BrokerState.SHUTDOWN_NOW,
    )
    why = Why() if after is before else Why(_MOVES[after])
    if lost:
        logs_why = _why_logs_changed(reported_before, record)
        why = logs_why if after is before else Why(_MOVES[after], logs_why.numbers)
    return Decision(changes, answer, why)


def fence(image: MetadataImage, broker_id: BrokerId, settings: BrokerConfig, why: Why) -> Decision[None]:
    """Return the changes that fence a broker; none if it is fenced already or unknown."""
    record = image.brokers.get(broker_id)
    if record is None or record.fenced:
        return Decision((), None)
    return Decision(_move(image, record, BrokerState.FENCED, settings), None, why)


def stop_together(image: MetadataImage) -> Decision[bool]:
    """Return the changes when all serving brokers stop at the same time, each of them after its last append.

    All are fenced, no partition has a leader, and the in-sync sets stay. So any member may lead first when the
    cluster starts again, not only the one that stopped last. A broker that loses data meanwhile registers without
    proof of a clean stop, and leaves the sets.
    """
    changes: list[Change] = [
        BrokerChanged(record._replace(fenced=True, shutting_down=False))
        for record in image.brokers.values()
        if not record.fenced
    ]
    for topic in image.topics.values():
        led = tuple(at_rest(each) for each in topic.partitions if each.has_leader)
        if led:
            changes.append(PartitionsChanged(topic.topic_id, led))
    return Decision(tuple(changes), True, Why(Reason.STOPPED_TOGETHER))


def state_of(record: BrokerRecord) -> BrokerState:
    """Return the state of a broker by its record."""
    if record.fenced:
        return BrokerState.FENCED
    return BrokerState.CONTROLLED_SHUTDOWN if record.shutting_down else BrokerState.UNFENCED


def _changed_logs(
    image: MetadataImage, record: BrokerRecord, logs: LogReport, settings: BrokerConfig
) -> tuple[Change, ...]:
    """Return the changes when a broker reports other failed or impaired replicas than before.

    An impaired broker that leads, since no other could, hands over with its next report after a fit one has joined.
    """
    failed, impaired = tuple(sorted(logs.failed)), tuple(sorted(logs.impaired))
    if failed == record.failed and impaired == record.impaired:
        return partitions_of_other_fitness(image, record.broker_id, settings) if impaired else ()
    marked = BrokerChanged(record._replace(failed=failed, impaired=impaired))
    after = image.apply((marked,), image.version)
    new = frozenset(failed) - frozenset(record.failed)
    changes: tuple[Change, ...] = (marked, *partitions_failing(after, record.broker_id, new, settings))
    if impaired != record.impaired:
        changes += partitions_of_other_fitness(after.apply(changes, image.version), record.broker_id, settings)
    if record.active and len(failed) < len(record.failed) + len(new):
        # The broker can serve some replicas again.
        healed = after.apply(changes, image.version)
        changes += partitions_with(healed, record.broker_id, settings)
    return changes


def _why_logs_changed(before: BrokerRecord, now: BrokerRecord) -> Why:
    """Return the gravest news of a report that differs from the one before."""
    damaged = set(now.impaired) - set(Refusal)
    # What is damaged may be offline, too; then it has not failed besides.
    if set(now.failed) - set(before.failed) - damaged:
        return Why(Reason.LOGS_FAILED, {"failed_count": len(now.failed)})
    # Without news, the broker hands over because of what it had reported before.
    new = set(now.impaired) - (set(before.impaired) if now != before else set())
    if Refusal.NO_ROOM in new:
        return Why(Reason.DISK_FULL)
    if Refusal.NO_DESCRIPTORS in new:
        return Why(Reason.NO_DESCRIPTORS)
    if new:
        return Why(Reason.LOGS_DAMAGED, {"damaged_count": len(damaged)})
    if before.refusal is not None and now.refusal is None:
        return Why(Reason.DISK_WRITABLE)
    return Why(Reason.LOGS_HEALED, {"failed_count": len({*now.failed, *damaged})})


def _record(registration: Registration, broker_epoch: BrokerEpoch) -> BrokerRecord:
    return BrokerRecord(
        registration.broker_id,
        broker_epoch,
        registration.incarnation_id,
        registration.host,
        registration.port,
        registration.internal_host,
        registration.internal_port,
        registration.rack,
    )


def _next_broker_state(
    image: MetadataImage,
    sessions: BrokerSessions,
    record: BrokerRecord,
    *,
    metadata_version: int,
    want_fence: bool,
    want_shut_down: bool,
) -> BrokerState:
    state = state_of(record)
    if state is BrokerState.FENCED:
        if want_shut_down:
            return BrokerState.SHUTDOWN_NOW
        if not want_fence and metadata_version >= record.broker_epoch:
            return BrokerState.UNFENCED
        return BrokerState.FENCED
    if state is BrokerState.UNFENCED:
        if want_fence:
            return BrokerState.SHUTDOWN_NOW if want_shut_down else BrokerState.FENCED
        if want_shut_down:
            leads = leads_any(image, record.broker_id)
            return BrokerState.CONTROLLED_SHUTDOWN if leads else BrokerState.SHUTDOWN_NOW
        return BrokerState.UNFENCED
    session = sessions.of(record.broker_id)
    assert session is not None, "a heartbeat begins a session"
    if leads_any(image, record.broker_id):
        return BrokerState.CONTROLLED_SHUTDOWN
    others = [broker for broker, other in image.brokers.items() if other.active]
    lowest = sessions.lowest_version(others)
    awaited = image.version if session.shutdown_version is None else session.shutdown_version
    if lowest is None or lowest >= awaited:
        return BrokerState.SHUTDOWN_NOW
    return BrokerState.CONTROLLED_SHUTDOWN


def _move(
    image: MetadataImage,
    record: BrokerRecord,
    state: BrokerState,
    settings: BrokerConfig,
    *,
    is_starting: bool = False,
) -> tuple[Change, ...]:
    broker_id = record.broker_id
    if state is BrokerState.UNFENCED:
        moved = record._replace(fenced=False, shutting_down=False)
        elections = partitions_with(image, broker_id, settings, waits_for_members=is_starting)
        return (BrokerChanged(moved), *elections)
    if state is BrokerState.CONTROLLED_SHUTDOWN:
        moved = record._replace(shutting_down=True)
    else:
        moved = record._replace(fenced=True, shutting_down=False)
    changes: tuple[Change, ...] = () if moved == record else (BrokerChanged(moved),)
    return (*changes, *partitions_without(image, broker_id, settings))
