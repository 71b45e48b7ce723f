"""Impairments: what keeps a broker from leading as long as another member of the ISR can.

An impaired replica is still served. Its disk refuses writes for want of room or of descriptors, which concerns every
replica of the broker, or its log is damaged in one place and nobody else may have the records. A *failed* replica is
different: its broker does not serve it at all.

A heartbeat has one list for all of this, the ids of offline log directories. Each replica's directory counts as one
(`metadata.directory_id`), the highest bit of its partition number marks a damaged log that is still served, and two of
the ids that Kafka reserves stand for the whole disk.

Units: failed replicas and damaged logs are directory ids in hex.
Source: KIP-112, KIP-858 (offline directories, reserved ids); impairments are ours (docs/divergences.md).
"""

from collections.abc import Iterable
from enum import Enum, StrEnum
from typing import Final, NamedTuple
from uuid import UUID

# Above every partition number, inside the 32 bits that a directory id has for it.
_DAMAGED: Final = 1 << 31


class Refusal(StrEnum):
    """Why a disk refuses writes although nothing on it is broken; the values are part of the metadata."""

    NO_ROOM = "no-room"
    NO_DESCRIPTORS = "no-descriptors"


class Fitness(Enum):
    """Whether a replica can lead, apart from its broker being active."""

    ABLE = "able"
    # It has all its records, and cannot take more.
    CANNOT_WRITE = "cannot write"
    # It lacks records that it has acknowledged.
    DAMAGED = "damaged"


class LogReport(NamedTuple):
    """What a heartbeat says about logs: replicas that are not served, and what impairs the others."""

    failed: tuple[str, ...] = ()
    impaired: tuple[str, ...] = ()


# Kafka reserves the first hundred ids: no directory has one of them.
_REFUSAL_IDS: Final = {Refusal.NO_ROOM: UUID(int=90), Refusal.NO_DESCRIPTORS: UUID(int=91)}
_REFUSALS: Final = {each: refusal for refusal, each in _REFUSAL_IDS.items()}


def refusal_id(refusal: Refusal) -> UUID:
    """Return the id by which a heartbeat says that the whole disk refuses writes."""
    return _REFUSAL_IDS[refusal]


def damaged_id(directory_id: UUID) -> UUID:
    """Return the id by which a heartbeat says that a log is damaged and still served."""
    assert not directory_id.int & _DAMAGED, f"{directory_id} is marked already"
    return UUID(int=directory_id.int | _DAMAGED)


def report_of(ids: Iterable[UUID]) -> LogReport:
    """Return what the ids of a heartbeat say."""
    failed: list[str] = []
    impaired: list[str] = []
    for each in ids:
        refusal = _REFUSALS.get(each)
        if refusal is not None:
            impaired.append(refusal.value)
        elif each.int & _DAMAGED:
            impaired.append(UUID(int=each.int & ~_DAMAGED).hex)
        else:
            failed.append(each.hex)
    return LogReport(tuple(failed), tuple(impaired))
