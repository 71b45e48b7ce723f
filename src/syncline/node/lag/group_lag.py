"""How far the groups of this coordinator are behind: commits of its own, ends and places from the leaders.

One hard idea: a consistent cut over several brokers needs no lock, only an order. Commits are read first, and only then
the leaders are asked; a leader's watermark never falls below what was committed, so every distance is at least 0, and
it existed at one moment between question and answer (`LagRow.skew_ms`).

Places do not change under one leader, so those of commits are kept beside them and asked for once. What is shown to
people is asked for anew (`is_fresh`): only leaders know what retention is about to do.

`tick` samples the ends of all partitions periodically, also if no command asks: Burrow's rules and the speeds of groups
and producers need a history. Units: as in `model.lag`.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from syncline.core.lag.burrow_status import group_status, partition_status
from syncline.core.lag.commit_ring import Commit, last_moved_ms
from syncline.core.lag.commit_slab import CommitSlab, KeptPlace
from syncline.core.lag.findings import GroupFacts, PartitionFacts, findings
from syncline.core.lag.own_pauses import OwnPauses
from syncline.core.lag.readers import MemberAssignment
from syncline.core.lag.rows import NO_READER, Speeds, check_row, first_unread, group_row, unread_records
from syncline.model.errors import ErrorCode, RequestError
from syncline.model.ids import Offset, TopicPartition
from syncline.model.lag import UNKNOWN, Finding, GroupVerdict, LagRow, OffsetPlace, PartitionEnds, PartitionVerdict
from syncline.node.clock import Clock
from syncline.node.lag.commits import Commits
from syncline.node.lag.ends import KnownEnds
from syncline.node.lag.group_readers import assignments_of, fetching_members
from syncline.node.lag.leaders import AnsweredEnds, Answers, Leaders
from syncline.node.lag.members import DescribesGroups, Members, members_of
from syncline.node.lag.read_positions import ReaderPosition
from syncline.node.metadata.cluster_view import ClusterView
from syncline.node.metadata.live_configs import LiveConfigs

# Rows that are looked at before the loop is freed: a millisecond or two.
ROWS_PER_TURN: Final = 200
# A row with its status takes much longer.
JUDGED_PER_TURN: Final = 30
# Pages of a group that are asked for within this time are of one cut.
PAGED_MS: Final = 10_000


class _Captured(NamedTuple):
    """A commit as it was before the leaders were asked; `committed` is None where the group has none."""

    key: TopicPartition
    committed: Offset | None
    kept: KeptPlace | None


class _CapturedGroup(NamedTuple):
    group_id: str
    members: Members
    partitions: Sequence[_Captured]


class MeasuredRow(NamedTuple):
    """One partition of a group, with what its status rests on."""

    row: LagRow
    verdict: PartitionVerdict
    ends: PartitionEnds


class MeasuredGroup(NamedTuple):
    """One group, as of one cut."""

    group_id: str
    members: Members
    rows: Sequence[MeasuredRow]
    verdict: GroupVerdict
    findings: Sequence[Finding]
    missing: Sequence[tuple[TopicPartition, ErrorCode]]
    """Partitions whose leader did not answer, and why."""


class Cut:
    """Several groups at one moment; a group is computed when it is asked for."""

    def __init__(self, lag: "GroupLag", groups: Sequence[_CapturedGroup], answers: Answers) -> None:
        self._lag = lag
        self._groups = {group.group_id: group for group in groups}
        self._answers = answers

    def group_ids(self) -> list[str]:
        """Return the groups, in the order in which they were named."""
        return list(self._groups)

    async def measured(self, group_id: str) -> MeasuredGroup:
        """Return a group with its rows, in the order of topics and partitions."""
        return await self._lag.measured(self._groups[group_id], self._answers)


class GroupLag:
    """The lag of all groups that one broker coordinates."""

    def __init__(
        self,
        *,
        clock: Clock,
        cluster: ClusterView,
        configs: LiveConfigs,
        commits: Commits,
        ends: KnownEnds,
        leaders: Leaders,
        groups: Callable[[], DescribesGroups],
        pauses: OwnPauses,
    ) -> None:
        self._clock = clock
        self._cluster = cluster
        self._configs = configs
        self._commits = commits
        self._ends = ends
        self._leaders = leaders
        self._groups = groups
        self._pauses = pauses
        self._ticked_ms: int | None = None
        # The group of which pages are being read, and since when.
        self._paged: tuple[MeasuredGroup, int] | None = None

    def group_ids(self) -> list[str]:
        """Return the groups that have commits or members here, sorted; none that are still being read."""
        named = dict.fromkeys(group_id for group_id, _ in self._commits.groups())
        # While some logs are still being read, the groups of the others are known by their commits.
        with contextlib.suppress(RequestError):
            named.update(dict.fromkeys(group.group_id for group in self._groups().list_groups()))
        return sorted(named)

    def standing(self, group_id: str) -> ErrorCode:
        """Return NONE for a group that this broker coordinates, else why it cannot tell of it."""
        try:
            described = self._groups().describe(group_id)
        except RequestError as error:
            return error.code
        is_known = described is not None or self._commits.slab(group_id) is not None
        return ErrorCode.NONE if is_known else ErrorCode.GROUP_ID_NOT_FOUND

    async def assignments(self, group_ids: Iterable[str]) -> list[MemberAssignment]:
        """Return the members of these groups that have partitions."""
        return await assignments_of(self._groups(), group_ids)

    async def cut(self, group_ids: Iterable[str], *, is_exact: bool, is_fresh: bool = False) -> Cut:
        """Return these groups as of one moment after this call.

        `is_fresh`: with what retention is about to do, which only leaders know. `is_exact`: with that, with all
        partitions of their topics, and with readers.
        """
        turn = _Turn(ROWS_PER_TURN)
        groups = [await self._captured(group_id, turn, is_whole=is_exact) for group_id in group_ids]
        answers = Answers()
        questions = await self._questions(groups, answers, is_fresh=is_exact or is_fresh)
        await self._leaders.ask(questions, answers, is_exact=is_exact, with_readers=is_exact)
        # A place that was kept under another leader, or whose record was deleted meanwhile.
        again = await self._questions(groups, answers, is_fresh=False)
        if again:
            await self._leaders.ask(again, answers, is_exact=is_exact)
        await self._begin_rings(answers)
        await self._keep_places(groups, answers)
        return Cut(self, groups, answers)

    async def paged(self, group_id: str, first: int, count: int) -> MeasuredGroup:
        """Return a group, measured exactly; pages behind the first one are of the same cut, unless that is old."""
        kept, now_ms = self._paged, self._clock.mono_ms()
        if first and kept is not None and kept[0].group_id == group_id and now_ms - kept[1] <= PAGED_MS:
            return kept[0]
        cut = await self.cut([group_id], is_exact=True)
        measured = await cut.measured(group_id)
        self._paged = (measured, now_ms) if first + count < len(measured.rows) else None
        return measured

    async def tick(self) -> None:
        """Sample the ends of all partitions in which a group has committed, and measure speeds."""
        keys: dict[TopicPartition, tuple[Offset, ...]] = {}
        for _, slab in self._commits.groups():
            keys.update(dict.fromkeys((key for key in slab.partitions() if self._exists(key)), ()))
            await asyncio.sleep(0)
        answers = Answers()
        await self._leaders.ask(keys, answers, is_exact=False)
        await self._begin_rings(answers, is_tick=True)
        now_ms = self._clock.mono_ms()
        elapsed_ms = 0 if self._ticked_ms is None else now_ms - self._ticked_ms
        self._ticked_ms = now_ms
        for _, slab in self._commits.groups():
            for key in list(slab.partitions()):
                slot = slab.find(*key)
                if slot is not None:
                    slab.tick(slot, elapsed_ms)
            await asyncio.sleep(0)
        self._ends.keep_only(keys)
        if self._paged is not None and now_ms - self._paged[1] > PAGED_MS:
            self._paged = None

    async def _captured(self, group_id: str, turn: "_Turn", *, is_whole: bool) -> _CapturedGroup:
        members = await members_of(self._groups(), group_id)
        slab = self._commits.slab(group_id)
        keys: dict[TopicPartition, None] = {}
        if slab is not None:
            keys.update(dict.fromkeys(slab.partitions()))
        topics = dict.fromkeys(key.topic for key in keys)
        keys.update(dict.fromkeys(members.readers))
        if is_whole:
            for topic in topics:
                known = self._cluster.image.topics.get(topic)
                keys.update(
                    (TopicPartition(topic, index), None) for index in range(len(known.partitions) if known else 0)
                )
        partitions = []
        await turn.next()
        for key in sorted(keys):
            await turn.next()
            if self._exists(key):
                partitions.append(_capture(slab, key))
        return _CapturedGroup(group_id, members, partitions)

    def _exists(self, key: TopicPartition) -> bool:
        return self._cluster.image.partition(*key) is not None

    async def _questions(
        self, groups: Sequence[_CapturedGroup], answers: Answers, *, is_fresh: bool
    ) -> dict[TopicPartition, dict[Offset, None]]:
        """Return which offsets have to be asked for: all commits, or those whose place is not known.

        Before the first answer every partition is asked for its ends.
        """
        questions: dict[TopicPartition, dict[Offset, None]] = {}
        turn = _Turn(ROWS_PER_TURN)
        for group in groups:
            for each in group.partitions:
                await turn.next()
                if each.key in answers.ends:
                    if each.committed is not None and _lacks_place(each, answers):
                        questions.setdefault(each.key, {})[each.committed] = None
                elif each.key not in answers.errors:
                    wanted = questions.setdefault(each.key, {})
                    if each.committed is not None and (is_fresh or not self._is_kept(each)):
                        wanted[each.committed] = None
        return questions

    def _is_kept(self, each: _Captured) -> bool:
        """Return whether the place of a commit is likely to be known still; the answer to come decides."""
        seen, kept = self._ends.get(each.key), each.kept
        if kept is None or seen is None or seen.last is None or each.committed is None:
            return False
        return kept.namespace == seen.namespace and each.committed >= seen.last.log_start

    async def _begin_rings(self, answers: Answers, *, is_tick: bool = False) -> None:
        """Add the ends to their rings: at a tick all, else those of which there is none yet.

        Commits that were made before any end was known get their lag from the first one, as Burrow's would.
        """
        first: dict[TopicPartition, int] = {}
        turn = _Turn(ROWS_PER_TURN)
        for key, answered in answers.ends.items():
            await turn.next()
            if answered.seen.ring.newest is None:
                first[key] = answered.ends.high_watermark
            elif not is_tick:
                continue
            answered.seen.tick(answered.ends)
        if not first:
            return
        for _, slab in self._commits.groups():
            for key, end in first.items():
                slot = slab.find(*key)
                if slot is not None:
                    slab.end_known(slot, end)
            await asyncio.sleep(0)

    async def _keep_places(self, groups: Sequence[_CapturedGroup], answers: Answers) -> None:
        """Keep what is certain: times that are estimated may be known better later."""
        turn = _Turn(ROWS_PER_TURN)
        for group in groups:
            for each in group.partitions:
                await turn.next()
                place = None if each.committed is None else answers.place(each.key, each.committed)
                slab = None if place is None else self._commits.slab(group.group_id)
                slot = None if slab is None else slab.find(*each.key)
                if place is not None and slab is not None and slot is not None and not place.is_estimated:
                    slab.set_place(slot, place, answers.ends[each.key].namespace)

    async def measured(self, group: _CapturedGroup, answers: Answers) -> MeasuredGroup:
        """Return the rows of a group, its status and the causes."""
        fetching = await fetching_members(
            group.group_id, group.members, answers.readers, self._groups(), self.group_ids
        )
        facts: list[PartitionFacts] = []
        missing: list[tuple[TopicPartition, ErrorCode]] = []
        turn = _Turn(JUDGED_PER_TURN)
        for each in group.partitions:
            await turn.next()
            answered = answers.ends.get(each.key)
            if answered is None:
                missing.append((each.key, answers.errors.get(each.key, ErrorCode.LEADER_NOT_AVAILABLE)))
            else:
                facts.append(self._facts(group, each, answers, answered, fetching.get(each.key)))
        since_ms = group.members.rebalances_since_ms
        rebalances_for_ms = None if since_ms is None else max(0, self._clock.wall_ms() - since_ms)
        return MeasuredGroup(
            group_id=group.group_id,
            members=group.members,
            rows=[MeasuredRow(each.row, each.verdict, answers.ends[each.row.key].ends) for each in facts],
            verdict=group_status((each.row.key, each.verdict) for each in facts if each.row.committed is not None),
            findings=findings(GroupFacts(facts, group.members.member_count, rebalances_for_ms)),
            missing=missing,
        )

    def _facts(
        self,
        group: _CapturedGroup,
        each: _Captured,
        answers: Answers,
        answered: AnsweredEnds,
        fetching: ReaderPosition | None,
    ) -> PartitionFacts:
        ends, seen = answered.ends, answered.seen
        slab = self._commits.slab(group.group_id)
        slot = None if slab is None else slab.find(*each.key)
        window: list[Commit | None] = []
        consumed_per_s: float | None = None
        if slab is not None and slot is not None:
            window, consumed_per_s = slab.commits(slot), slab.rate_per_s(slot)
        place, is_kept = _place_of(each, answers)
        now_ms = self._clock.wall_ms()
        verdict = partition_status(
            window,
            seen.ring.offsets(),
            now_ms,
            min_window_ms=self._configs.broker.lag_status_min_window_ms,
            unread=None if each.committed is None else unread_records(each.committed, ends, place),
            pauses=self._pauses.last,
        )
        reader = group.members.readers.get(each.key, NO_READER)
        moved_ms = last_moved_ms(window)
        moved_ago_ms = UNKNOWN if moved_ms is None else max(0, now_ms - moved_ms)
        if fetching is not None:
            offset = fetching.offset
            if each.committed is not None and 0 <= moved_ago_ms <= fetching.fetched_ago_ms:
                # It has worked on what that fetch brought.
                offset = max(offset, each.committed)
            reader = reader._replace(fetch_offset=offset)
        row = group_row(
            each.key,
            each.committed,
            ends,
            place,
            verdict,
            Speeds(consumed_per_s, seen.produced_per_s),
            reader,
            answered.skew_ms,
        )
        if is_kept:
            # What retention is about to do was not asked for.
            row = row._replace(retention_margin_s=None, loses_data=False)
        check_row(row)
        return PartitionFacts(
            row,
            verdict,
            fetched_ago_ms=UNKNOWN if fetching is None else fetching.fetched_ago_ms,
            moved_ago_ms=moved_ago_ms,
            held_back_share=0.0 if fetching is None else fetching.held_back_share,
            watermark_held_for_ms=0 if ends.held_since_ms == UNKNOWN else max(0, ends.at_ms - ends.held_since_ms),
            produced_per_s=seen.produced_per_s,
            usual_produced_per_s=seen.usual_produced_per_s,
            consumed_per_s=consumed_per_s,
        )


class _Turn:
    """Frees the loop after so many steps."""

    __slots__ = ("_count", "_length")

    def __init__(self, length: int) -> None:
        self._length = length
        self._count = 0

    async def next(self) -> None:
        """Count a step."""
        self._count += 1
        if self._count >= self._length:
            self._count = 0
            await asyncio.sleep(0)


def _capture(slab: CommitSlab | None, key: TopicPartition) -> _Captured:
    slot = None if slab is None else slab.find(*key)
    newest = None if slab is None or slot is None else slab.newest(slot)
    if slab is None or slot is None or newest is None or newest[0] < 0:
        # Coordinators keep whatever a client commits; an offset below 0 is none.
        return _Captured(key, None, None)
    return _Captured(key, Offset(newest[0]), slab.place(slot))


def _lacks_place(each: _Captured, answers: Answers) -> bool:
    """Return whether a row needs a place that this broker has not asked the leader of these ends for."""
    ends = answers.ends[each.key].ends
    if each.committed is None or first_unread(each.committed, ends) >= ends.log_end:
        return False
    place, _ = _place_of(each, answers)
    # What was asked for and not found in time is not asked for again.
    return place is None and (each.kept is not None or answers.has_place(each.key, each.committed))


def _place_of(each: _Captured, answers: Answers) -> tuple[OffsetPlace | None, bool]:
    """Return where the next record of a group lies, and whether that was kept and not asked for."""
    if each.committed is None:
        return None, False
    ends, namespace = answers.ends[each.key].ends, answers.ends[each.key].namespace
    unread = first_unread(each.committed, ends)
    told, kept = answers.place(each.key, each.committed), each.kept
    if told is not None and told.offset == unread:
        return told, False
    if kept is None or kept.namespace != namespace or unread != each.committed:
        return None, False
    place = OffsetPlace(
        offset=unread,
        coordinate_bytes=kept.coordinate_bytes,
        append_ms=kept.append_ms,
        event_ms=kept.event_ms,
        readable_before=UNKNOWN,
        kept_until_ms=UNKNOWN,
        segment_end_bytes=ends.end_bytes,
        is_estimated=False,
    )
    return place, True
