"""The mender: puts back what a damaged log lacks, from any copy that has it, when no replica can take its place.

Two kinds of damaged logs have no replacement: one of a partition without a leader, and one that its leader serves
because it is the only one in sync. Each has its holes, and other copies, which may be damaged elsewhere, have the
records: in logs that this broker has set aside, and on the brokers of the other replicas, in all that they have of the
partition. `storage/recovery/mending.py` says which records fit. So what any one disk holds is enough.

A mended log of a partition without a leader is served again, and the controller elects by its rules. A log in service
is mended segment by segment, while it is read. Whatever cannot be mended stays as it is, and is tried again, ever more
rarely: brokers come back.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from syncline.model.ids import BrokerId, Offset, TopicPartition
from syncline.node.hosting.copies import CopyRequest, find_copies
from syncline.node.hosting.offline_logs import OfflineLogs
from syncline.node.links.links import Links, client_id_of
from syncline.node.links.peer import PeerLost
from syncline.node.loop.tasks import Tasks
from syncline.node.metadata.cluster_view import ClusterView
from syncline.node.metadata.live_configs import LiveConfigs
from syncline.node.partitions.log_settings import log_settings
from syncline.storage.disk import Disk
from syncline.storage.errors import StorageError
from syncline.storage.log_directory import LogDirectory
from syncline.wire.api import ApiKey

if TYPE_CHECKING:
    from syncline.storage.recovery.mending import Hole, Patch

log = logging.getLogger("syncline.node")

_Result = TypeVar("_Result")

# The pause after an attempt, doubled up to the second while nothing could be put back.
PAUSE_S: Final = 1.0
PAUSE_S_MAX: Final = 60.0
ANSWER_S: Final = 10.0


class Mender:
    """The mending of one broker's logs."""

    def __init__(
        self,
        *,
        broker_id: BrokerId,
        loop: asyncio.AbstractEventLoop,
        cluster: ClusterView,
        configs: LiveConfigs,
        disk: Disk,
        logs: LogDirectory,
        offline: OfflineLogs,
        tasks: Tasks,
        links: Links,
    ) -> None:
        self._broker_id = broker_id
        self._loop = loop
        self._cluster = cluster
        self._configs = configs
        self._disk = disk
        self._logs = logs
        self._offline = offline
        self._tasks = tasks
        self._links = links
        self._task: asyncio.Task[None] | None = None
        # The hole at which mending stopped, for which no copy was found.
        self._stuck: dict[TopicPartition, Hole] = {}
        self.mended_count = 0

    def look(self) -> None:
        """Begin to mend if there is anything to mend; called after changes of the metadata, and from time to time."""
        if (self._task is None or self._task.done()) and self._wanted():
            self._task = self._tasks.spawn(self._mend_all())

    def offer(self, asked: CopyRequest, done: Callable[[bytes | Exception], None]) -> None:
        """Find what this broker has of records that another one lacks."""
        name = self._cluster.image.topic_names.get(asked.topic_id)
        try:
            paths = [] if name is None else self._logs.copies_of(TopicPartition(name, asked.partition), asked.topic_id)
        except OSError as error:
            done(error)
            return
        self._disk.run_later(partial(find_copies, self._disk, paths, asked), done)

    def _wanted(self) -> list[TopicPartition]:
        return [*self._offline.without_leader(), *self._offline.served()]

    async def _mend_all(self) -> None:
        pause_s = PAUSE_S
        while True:
            # Leadership may move first, which is better than mending.
            await asyncio.sleep(pause_s)
            wanted = self._wanted()
            if not wanted:
                self._stuck.clear()
                return
            before = dict(self._stuck)
            for key in wanted:
                await self._mend(key)
            pause_s = min(2 * pause_s, PAUSE_S_MAX) if self._stuck == before else PAUSE_S

    async def _mend(self, key: TopicPartition) -> None:
        self._offline.mending.add(key)
        try:
            if self._logs.logs.get(key) is None:
                await self._mend_offline(key)
            else:
                await self._mend_served(key)
        except (StorageError, OSError) as error:
            log.warning("%s cannot be repaired now: %s", key, error)
        finally:
            self._offline.mending.discard(key)
            record = self._cluster.image.partition(*key)
            if record is not None and record.has_leader and key in self._logs.damaged:
                # A leader has appeared meanwhile, from which the log is fetched again.
                self._assign(key)

    async def _mend_offline(self, key: TopicPartition) -> None:
        """Mend a log that is not served, and serve it."""
        reason, note = self._logs.damaged[key], self._logs.note_of(key)
        directory = f"{self._logs.path}/{key}"

        def is_still() -> bool:
            return self._logs.damaged.get(key) is reason

        if not await self._fill(key, directory, note.recovery_point, None, is_still):
            return
        topic = self._cluster.image.topics.get(key.topic)
        if topic is None or not is_still():
            return
        settings = log_settings(self._configs.topic_of(topic))
        recovered = await self._work(self._logs.recovery_of(key, settings))
        if is_still():
            self._logs.mended(key, settings, recovered)
            self.mended_count += 1
            log.warning("%s is repaired: offsets %s to %s", key, recovered.log_start, recovered.log_end - 1)
            self._offline.mended(key)
            self._assign(key)

    def _assign(self, key: TopicPartition) -> None:
        assert self._offline.assign_again is not None, "the replicas are put together before any is mended"
        self._offline.assign_again([key])

    async def _mend_served(self, key: TopicPartition) -> None:
        """Mend a log in service, in its finished segments; the one that grows is finished first."""
        log_ = self._logs.logs[key]
        log_.roll()
        finished = log_.segments[:-1]
        generations = [each.generation for each in finished]

        def is_still() -> bool:
            kept = [each for each in log_.segments[:-1] if each in finished]
            is_same = [each.generation for each in kept] == generations[-len(kept) :] if kept else False
            return self._logs.logs.get(key) is log_ and is_same

        bases = frozenset(each.base_offset for each in finished)
        if not await self._fill(key, log_.directory, Offset(0), bases, is_still):
            return
        self.mended_count += 1
        log.warning("%s is repaired", key)
        self._offline.mended(key)

    async def _fill(
        self,
        key: TopicPartition,
        directory: str,
        flushed_to: Offset,
        bases: frozenset[Offset] | None,
        is_still: Callable[[], bool],
    ) -> bool:
        """Fill one hole after the other; return whether none is left."""
        # A start does without it. If there is no descriptor to read it with, `_mend` tries again.
        from syncline.storage.recovery.mending import first_hole

        while True:
            hole = self._stuck.get(key)
            if hole is None:
                hole = await self._work(partial(first_hole, self._disk, directory, flushed_to, bases))
            if hole is None:
                return is_still()
            made = await self._patch(key, directory, hole)
            if made is None or (bases is not None and not made.is_in_place):
                self._report_stuck(key, hole)
                return False
            self._stuck.pop(key, None)
            if not is_still():
                return False
            made.apply(self._disk)
            for segment in () if bases is None else self._logs.logs[key].segments[:-1]:
                if segment.base_offset == hole.base_offset:
                    # The next read opens the file that has the name now.
                    segment.release()

    def _report_stuck(self, key: TopicPartition, hole: "Hole") -> None:
        if self._stuck.get(key) != hole:
            self._stuck[key] = hole
            log.error(
                "%s: no sound copy of %s was found on this broker or on brokers that can be reached. The "
                "search continues; a directory of this partition on any broker, also one set aside, may hold "
                "it.",
                key,
                hole,
            )

    async def _patch(self, key: TopicPartition, directory: str, hole: "Hole") -> "Patch | None":
        """Ask for copies, here first, until one fits."""
        from syncline.storage.recovery.mending import patch

        topic = self._cluster.image.topics.get(key.topic)
        record = self._cluster.image.partition(*key)
        if topic is None or record is None:
            return None
        asked = CopyRequest(topic.topic_id, key.partition, hole.offset, hole.leader_epoch)
        here = [path for path in self._logs.copies_of(key, topic.topic_id) if path != directory]
        offered = await self._work(partial(find_copies, self._disk, here, asked))
        if offered and (made := await self._work(partial(patch, self._disk, directory, hole, offered))):
            log.warning("%s: restored from this broker's own copies: %s", key, hole)
            return made
        for broker_id in record.replicas:
            offered = b"" if broker_id == self._broker_id else await self._ask(broker_id, asked)
            if offered and (made := await self._work(partial(patch, self._disk, directory, hole, offered))):
                log.warning("%s: restored from broker %s: %s", key, broker_id, hole)
                return made
        return None

    async def _ask(self, broker_id: BrokerId, asked: CopyRequest) -> bytes:
        """Return what another broker has of the records; nothing if it cannot be reached."""
        known = self._cluster.image.brokers.get(broker_id)
        if known is None or known.fenced:
            return b""
        try:
            async with asyncio.timeout(ANSWER_S):
                peer = await self._links.connect(
                    broker_id, known.internal_host, known.internal_port, client_id_of(self._broker_id, "copies")
                )
                try:
                    return await peer.request_raw(ApiKey.COPIES, 0, (asked.encode(),))
                finally:
                    peer.close()
        except (PeerLost, TimeoutError):
            return b""

    async def _work(self, work: Callable[[], _Result]) -> _Result:
        """Return the result of work that a worker does."""
        done: asyncio.Future[_Result] = self._loop.create_future()

        def finished(outcome: _Result | Exception) -> None:
            if done.cancelled():
                return
            if isinstance(outcome, Exception):
                done.set_exception(outcome)
            else:
                done.set_result(outcome)

        self._disk.run_later(work, finished)
        return await done
