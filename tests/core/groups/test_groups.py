"""The coordinator of a partition as a whole: where groups live, and what holds under any sequence of events."""

import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from syncline.core.groups.messages import GroupSettings, MemberDescription
from syncline.core.groups.placement import RUN, partition_of
from syncline.model.errors import ErrorCode
from tests.core.group_driver import GROUP, GroupDriver, subscription


@pytest.mark.parametrize(
    ("group_id", "partition"),
    [
        pytest.param("", 0, id="empty"),
        pytest.param("g", 103 % 50, id="one-character"),
        pytest.param("hello", 99_162_322 % 50, id="positive-hash"),
        pytest.param("Hello World", 862_545_276 % 50, id="negative-hash"),
        pytest.param("polygenelubricants", 0, id="smallest-int"),
    ],
)
def test_group_lives_where_kafka_would_put_it(group_id: str, partition: int) -> None:
    """The absolute value of Java's string hash, not its low 31 bits."""
    assert partition_of(group_id, 50) == partition


def test_group_hash_counts_utf16_units() -> None:
    """A character beyond the basic plane is two units for Java."""
    units = (0xD83D, 0xDE00)

    assert partition_of("\U0001f600", 1 << 40) == 31 * units[0] + units[1]


@given(st.text(max_size=3 * RUN))
def test_group_hash_is_taken_in_runs(group_id: str) -> None:
    """Of however many characters: each unit is added to 31 times the hash before it."""
    value = 0
    for unit in struct.iter_unpack(">H", group_id.encode("utf-16-be", "surrogatepass")):
        value = (31 * value + unit[0]) % (1 << 32)

    assert partition_of(group_id, 1 << 40) == (abs(value - (1 << 32)) if value > 1 << 31 else value % (1 << 31))


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "join",
                "settle",
                "join-static",
                "rejoin",
                "sync",
                "beat",
                "leave",
                "commit",
                "delete",
                "offsets",
                "time",
                "log",
                "fail",
            ]
        ),
        st.integers(0, 3),
        st.integers(0, 12_000),
    ),
    max_size=60,
)


class _Walk:
    """Random events against one shard, by members that may be known, forgotten or fenced."""

    def __init__(self, initial_rebalance_delay_ms: int) -> None:
        self.driver = GroupDriver(GroupSettings(initial_rebalance_delay_ms=initial_rebalance_delay_ms))
        self.driver.is_committing = False
        self.members: list[tuple[str, str | None]] = [("stranger", None)]

    def step(self, event: str, pick: int, number: int) -> None:
        driver = self.driver
        member_id, instance = self.members[pick % len(self.members)]
        generation = driver.generation() if driver.inner_state() is not None else 1
        options: dict[str, Any] = {"session_ms": 6_000, "rebalance_ms": 4_000}
        match event:
            case "join":
                ticket = driver.join(version=9 if number % 2 else 3, **options)
                self._remember(ticket, None)
            case "join-static":
                self._remember(driver.join(instance=f"i{pick}", **options), f"i{pick}")
            case "rejoin":
                topics = subscription("t") if number % 3 else subscription("u")
                driver.join(member_id, instance=instance, protocols=(("range", topics),), **options)
            case "sync":
                driver.sync(member_id, generation, {member_id: b"a"}, instance=instance)
            case "beat":
                driver.beat(member_id, generation, instance=instance)
            case "leave":
                driver.leave((member_id, instance or "")) if instance else driver.leave(member_id)
            case "commit":
                driver.commit(member_id if number % 2 else "", generation if number % 2 else -1, ("t", pick, number))
            case "delete":
                driver.delete_group()
            case "offsets":
                driver.perform(driver.shard.forget_topics(["t"], driver.at))
            case "time":
                driver.advance(number)
            case "settle":
                self._settle()
            case "log":
                driver.commit_log()
            case _:
                driver.commit_log(ErrorCode.NOT_ENOUGH_REPLICAS)

    def _settle(self) -> None:
        """Let every member act as a correct client does, until the group is stable."""
        for member in self._shown():
            instance = member.group_instance_id
            self.driver.join(member.member_id, instance=instance, session_ms=6_000, rebalance_ms=4_000)
        self.driver.advance(4_000)
        ids = [member.member_id for member in self._shown()]
        for member_id in ids:
            self.driver.sync(member_id, self.driver.generation(), dict.fromkeys(ids, b"a"))
        self.driver.commit_log()

    def _shown(self) -> tuple[MemberDescription, ...]:
        found = self.driver.shard.describe(GROUP)
        return () if found is None else found.members

    def _remember(self, ticket: int, instance: str | None) -> None:
        reply = self.driver.answers.get(ticket)
        if reply is not None and reply.member_id:
            self.members.append((reply.member_id, instance))
        for member in self._shown():
            if (member.member_id, member.group_instance_id) not in self.members:
                self.members.append((member.member_id, member.group_instance_id))


@settings(max_examples=150, deadline=None)
@given(EVENTS, st.sampled_from([0, 500]))
def test_any_events_keep_the_invariants_and_answer_every_request_once(
    events: list[tuple[str, int, int]], initial_rebalance_delay_ms: int
) -> None:
    """No ticket is lost or answered twice, and the successor knows exactly what the log has committed (H11)."""
    walk = _Walk(initial_rebalance_delay_ms)
    driver = walk.driver

    for event in events:
        walk.step(*event)
    driver.commit_log()
    driver.commit_log()

    successor = driver.successor()
    assert successor.shard.offsets_of(GROUP) == driver.shard.offsets_of(GROUP)
    if driver.inner_state() == "Stable":
        assert successor.generation() == driver.generation()
        assert successor.shard.describe(GROUP) == driver.shard.describe(GROUP)
    driver.resign()
    assert set(driver.answers) == set(range(1, driver.ticket()))
