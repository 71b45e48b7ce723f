"""What a watch hears of commits: each that the log has, once, in the log's order."""

from typing import Any

from syncline.core.groups.groups import GroupShard
from syncline.core.groups.messages import CommitRequest, OffsetToCommit
from syncline.model.ids import Offset
from tests.core.group_driver import GROUP, NO_DELAY, WALL_MS, GroupDriver

Heard = list[tuple[Any, ...]]


class _Watch:
    """Writes down what it hears."""

    def __init__(self) -> None:
        self.heard: Heard = []

    def stored(self, *commit: Any) -> None:
        """Write down a commit."""
        self.heard.append(commit)

    def forgotten(self, *place: Any) -> None:
        """Write down that one is gone."""
        self.heard.append(("gone", *place))


def _watched(driver: GroupDriver) -> Heard:
    """Let a watch look on from now on; the driver has not begun yet."""
    watch = _Watch()
    driver.shard = GroupShard(NO_DELAY, lambda: "x", watch)
    driver.shard.loaded(driver.at)
    return watch.heard


def _commit(driver: GroupDriver, *offsets: tuple[str, int, int]) -> None:
    request = CommitRequest(
        member_id="",
        group_instance_id=None,
        generation=-1,
        offsets=tuple(
            OffsetToCommit(
                topic=topic,
                partition=partition,
                offset=Offset(offset),
                leader_epoch=-1,
                metadata="",
                expire_timestamp_ms=-1,
            )
            for topic, partition, offset in offsets
        ),
        knows_group_id_not_found=True,
    )
    driver.perform(driver.shard.commit(driver.ticket(), GROUP, request, driver.at))


def test_watch_hears_of_a_commit_when_the_log_has_it() -> None:
    """A commit that may still fail would give a group an offset that no coordinator after this one knows."""
    driver = GroupDriver(now_ms=0)
    heard = _watched(driver)
    driver.is_committing = False

    _commit(driver, ("t", 0, 5), ("t", 1, 7))
    before = list(heard)
    driver.commit_log()

    assert before == []
    assert heard == [(GROUP, "t", 0, 5, WALL_MS), (GROUP, "t", 1, 7, WALL_MS)]


def test_watch_of_the_next_coordinator_hears_the_same() -> None:
    """Windows of commits do not begin anew with each election."""
    driver = GroupDriver(now_ms=0)
    heard = _watched(driver)
    _commit(driver, ("t", 0, 5))
    driver.advance(1_000)
    _commit(driver, ("t", 0, 6))
    _commit(driver, ("u", 0, 1))
    driver.perform(driver.shard.forget_topics(["u"], driver.at))

    watch = _Watch()
    successor = GroupShard(NO_DELAY, lambda: "y", watch)
    for record in driver.log:
        successor.replay(record.key, record.value, driver.at)

    assert watch.heard == heard
    assert heard == [
        (GROUP, "t", 0, 5, WALL_MS),
        (GROUP, "t", 0, 6, WALL_MS + 1_000),
        (GROUP, "u", 0, 1, WALL_MS + 1_000),
        ("gone", GROUP, "u", 0),
    ]


def test_watch_hears_once_of_a_commit_that_was_copied() -> None:
    """The copies of a renewal would push older commits out of their windows."""
    driver = GroupDriver(now_ms=0)
    heard = _watched(driver)
    _commit(driver, ("t", 0, 5))

    watch = _Watch()
    successor = GroupShard(NO_DELAY, lambda: "y", watch)
    for record in driver.log * 3:
        successor.replay(record.key, record.value, driver.at)

    assert watch.heard == heard == [(GROUP, "t", 0, 5, WALL_MS)]


def test_watch_hears_of_commits_that_expire() -> None:
    """A group that is gone leaves nothing behind."""
    driver = GroupDriver(now_ms=0)
    heard = _watched(driver)
    _commit(driver, ("t", 0, 5))

    driver.advance(NO_DELAY.offsets_retention_ms + NO_DELAY.offsets_retention_check_interval_ms)

    assert heard[1:] == [("gone", GROUP, "t", 0)]
