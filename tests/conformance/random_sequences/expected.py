"""Where random sequences meet a divergence of docs/divergences.md."""

import re

from tests.conformance.compare import ABSENT, Difference, unexplained
from tests.conformance.divergences import OWN_TEXT, WHOLE_BATCHES, Divergence

FAILED, UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS, FENCED_INSTANCE_ID = -1, 25, 27, 82
NO_PIECE = "Where not even the first batch fits, Kafka has a null list, as for what it did not read."
RECORDS = "random_[dprs]*"
EXPECTED: tuple[Divergence, ...] = (
    Divergence(RECORDS, "reply.responses.*.partition_responses.*.error_message", OWN_TEXT, kafka=None),
    Divergence(RECORDS, "reply.*.cut_bytes", WHOLE_BATCHES),
    Divergence(RECORDS, "reply.responses.*.aborted_transactions", NO_PIECE, kafka=None),
    Divergence("random_admin.*", "reply.responses.*.error_message", OWN_TEXT, kafka=None),
)


def unexpected(found: list[Difference]) -> list[Difference]:
    """Return the differences that nothing explains.

    A group whose first member has its id from its own join is shown by Kafka once that member has synced.
    """
    ends = [each.step for each in found if _leads_elsewhere(each)]
    unseen = {each.step for each in found if _is_unseen_group(each)}
    left, _ = unexplained(found, EXPECTED)
    return [
        each
        for each in left
        if (not ends or each.step < ends[0]) and each.step not in unseen
        if not _is_same_value(each) and not _is_sync_of_one_who_left(each)
    ]


def _is_unseen_group(each: Difference) -> bool:
    is_listed = each.kafka == ABSENT and re.fullmatch(r"reply\.groups\.\d+", each.path) is not None
    return is_listed or (each.kafka == "Dead" and each.path.endswith(".group_state"))


def _is_same_value(each: Difference) -> bool:
    """Return whether both name the same refused or inherited value, one of them as it was written."""
    texts = [each.kafka, each.syncline]
    is_shown = each.path.endswith("error_message") or re.fullmatch(
        r"reply\.topics\.\d+\.configs\.\d+\.value", each.path
    )
    return bool(is_shown) and len({re.sub(r"[ ,+]|^0+(?=\d)", "", str(text).lower()) for text in texts}) == 1


def _is_sync_of_one_who_left(each: Difference) -> bool:
    """Return whether a member waited for its assignment when it left."""
    answer = each.syncline
    is_sync = isinstance(answer, dict) and "assignment" in answer
    return each.kafka == "silent" and is_sync and answer["error_code"] == UNKNOWN_MEMBER_ID


def _leads_elsewhere(each: Difference) -> bool:
    """Return whether a difference is meant to be and later answers rest on it, so that they cannot be compared.

    That is the first of two waiting requests of a member, which Kafka forgets; and a member with an id of a dynamic one
    that joins as a static one, at which Kafka fails.
    """
    answer = each.syncline
    if each.sequence.startswith("random_groups.") and (each.path, each.kafka) == ("reply.error_code", FAILED):
        return answer in {UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID}
    return each.kafka == "silent" and isinstance(answer, dict) and answer.get("error_code") == REBALANCE_IN_PROGRESS
