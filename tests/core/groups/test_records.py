"""The records of the offsets topic: Kafka's bytes, all value versions, and bytes that are none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncline.core.groups.records import (
    CommittedOffset,
    GroupKey,
    GroupRecordError,
    OffsetKey,
    StoredGroup,
    StoredMember,
    assigned_partitions,
    group_record,
    is_storable,
    offset_record,
    parse_group_value,
    parse_key,
    parse_offset_value,
    subscribed_topics,
)
from syncline.model.ids import Offset
from tests.core.group_driver import subscription

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
MEMBERS = st.builds(
    StoredMember,
    member_id=TEXT,
    group_instance_id=st.none() | TEXT,
    client_id=TEXT,
    client_host=TEXT,
    rebalance_timeout_ms=st.integers(0, 2**31 - 1),  # -1 would read back as the session timeout
    session_timeout_ms=INT32,
    subscription=st.binary(max_size=20),
    assignment=st.binary(max_size=20),
)
GROUPS = st.builds(
    StoredGroup,
    protocol_type=TEXT,
    generation=INT32,
    protocol_name=st.none() | TEXT,
    leader=st.none() | TEXT,
    state_timestamp_ms=INT64,
    members=st.lists(MEMBERS, max_size=3).map(tuple),
)
OFFSETS = st.builds(
    CommittedOffset,
    offset=INT64.map(Offset),
    leader_epoch=INT32,
    metadata=TEXT,
    commit_timestamp_ms=INT64,
)


def test_offset_record_is_laid_out_as_kafka_does() -> None:
    """OffsetCommitKey v1, OffsetCommitValue v3."""
    record = offset_record(OffsetKey("g", "t", 2), CommittedOffset(Offset(5), 3, "m", 7))

    assert record.key.hex(" ") == "00 01 00 01 67 00 01 74 00 00 00 02"
    assert record.value is not None
    assert record.value.hex(" ") == ("00 03 00 00 00 00 00 00 00 05 00 00 00 03 00 01 6d 00 00 00 00 00 00 00 07")


def test_group_record_is_laid_out_as_kafka_does() -> None:
    """GroupMetadataKey v2, GroupMetadataValue v3."""
    member = StoredMember(
        member_id="a",
        group_instance_id=None,
        client_id="c",
        client_host="/h",
        rebalance_timeout_ms=1,
        session_timeout_ms=2,
        subscription=b"s",
        assignment=b"",
    )
    record = group_record(
        GroupKey("g"),
        StoredGroup(
            protocol_type="p",
            generation=9,
            protocol_name="r",
            leader=None,
            state_timestamp_ms=4,
            members=(member,),
        ),
    )

    assert record.key.hex(" ") == "00 02 00 01 67"
    assert record.value is not None
    assert record.value.hex(" ") == (
        "00 03 00 01 70 00 00 00 09 00 01 72 ff ff 00 00 00 00 00 00 00 04 00 00 00 01"
        " 00 01 61 ff ff 00 01 63 00 02 2f 68 00 00 00 01 00 00 00 02 00 00 00 01 73 00 00 00 00"
    )


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(
            "00 00 00 00 00 00 00 00 00 05 00 01 6d 00 00 00 00 00 00 00 07",
            CommittedOffset(Offset(5), -1, "m", 7),
            id="v0",
        ),
        pytest.param(
            "00 01 00 00 00 00 00 00 00 05 00 01 6d 00 00 00 00 00 00 00 07 00 00 00 00 00 00 00 08",
            CommittedOffset(Offset(5), -1, "m", 7, 8),
            id="v1",
        ),
        pytest.param(
            "00 02 00 00 00 00 00 00 00 05 00 01 6d 00 00 00 00 00 00 00 07",
            CommittedOffset(Offset(5), -1, "m", 7),
            id="v2",
        ),
    ],
)
def test_offset_values_of_earlier_versions_are_read(data: str, expected: CommittedOffset) -> None:
    """A log that an older coordinator wrote is understood."""
    assert parse_offset_value(bytes.fromhex(data)) == expected


def test_group_value_of_the_first_version_uses_one_timeout_for_both() -> None:
    """v0 has neither a rebalance timeout nor a state timestamp."""
    data = bytes.fromhex(
        "00 00 00 01 70 00 00 00 09 00 01 72 ff ff 00 00 00 01"
        " 00 01 61 00 01 63 00 02 2f 68 00 00 00 02 00 00 00 00 00 00 00 00"
    )

    group = parse_group_value(data)

    assert (group.state_timestamp_ms, group.members[0].rebalance_timeout_ms) == (-1, 2)


@given(TEXT, TEXT, INT32, st.none() | OFFSETS, st.none() | st.integers(0, 2**63 - 1))
def test_offset_record_survives_the_round_trip(
    group_id: str, topic: str, partition: int, value: CommittedOffset | None, expire_ms: int | None
) -> None:
    """With an expiry time the older format is used, which has no leader epoch."""
    if value is not None and expire_ms is not None:
        value = CommittedOffset(value.offset, -1, value.metadata, value.commit_timestamp_ms, expire_ms)
    key = OffsetKey(group_id, topic, partition)

    record = offset_record(key, value)

    assert parse_key(record.key) == key
    assert (None if record.value is None else parse_offset_value(record.value)) == value


@given(TEXT, st.none() | GROUPS)
def test_group_record_survives_the_round_trip(group_id: str, value: StoredGroup | None) -> None:
    """Null and empty strings stay apart."""
    record = group_record(GroupKey(group_id), value)

    assert parse_key(record.key) == GroupKey(group_id)
    assert (None if record.value is None else parse_group_value(record.value)) == value


@given(st.binary(max_size=60))
def test_foreign_bytes_raise_only_our_error(data: bytes) -> None:
    """Whatever the bytes are, they are read or refused."""
    for parse in (parse_key, parse_offset_value, parse_group_value):
        try:
            parse(data)
        except GroupRecordError:
            continue


def test_key_of_a_newer_feature_is_passed_over() -> None:
    """Version 3 and up belong to groups that this coordinator does not have."""
    assert parse_key(bytes.fromhex("00 03 00 01 67")) is None


@pytest.mark.parametrize(
    ("metadata", "topics"),
    [
        pytest.param(subscription("t", "u"), ("t", "u"), id="v0"),
        pytest.param(
            b"\x00\x03" + subscription("t")[2:] + b"\x00\x00\x00\x00", ("t",), id="later-version-has-v0-first"
        ),
        pytest.param(b"", None, id="empty"),
        pytest.param(b"\x00\x00\x7f\xff\xff\xff", None, id="absurd-count"),
        pytest.param(b"\xff\xff" + subscription("t")[2:], None, id="negative-version"),
    ],
)
def test_subscription_is_read_by_its_version_zero_prefix(metadata: bytes, topics: tuple[str, ...] | None) -> None:
    """None when it cannot be read, which is not the same as no topics."""
    assert subscribed_topics(metadata) == topics


@pytest.mark.parametrize(
    ("assignment", "partitions"),
    [
        pytest.param(
            b"\x00\x01\x00\x00\x00\x02\x00\x01t\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x05"
            b"\x00\x01u\x00\x00\x00\x00\xff\xff\xff\xff",
            (("t", 0), ("t", 5)),
            id="of-two-topics",
        ),
        pytest.param(b"", (), id="empty"),
        pytest.param(b"\x00\x00\x7f\xff\xff\xff", (), id="absurd-topics"),
        pytest.param(b"\x00\x00\x00\x00\x00\x01\x00\x01t\x7f\xff\xff\xff\x00", (), id="absurd-partitions"),
        pytest.param(b"\xff\xff\x00\x00\x00\x00", (), id="negative-version"),
    ],
)
def test_assignment_is_read_by_its_version_zero_prefix(
    assignment: bytes, partitions: tuple[tuple[str, int], ...]
) -> None:
    """Members of other protocols may assign anything; none of it is an error."""
    assert assigned_partitions(assignment) == partitions


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        pytest.param("x" * 32_767, True, id="longest"),
        pytest.param("x" * 32_768, False, id="too-long"),
        pytest.param("\u20ac" * 10_923, False, id="too-long-in-bytes"),
    ],
)
def test_strings_are_storable_up_to_their_length_field(text: str, *, fits: bool) -> None:
    """An int16 counts the bytes."""
    assert is_storable(text) is fits
