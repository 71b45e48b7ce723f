"""The replication of one partition, reduced to what can go wrong in it.

Producers, followers, a controller and faults take turns; each turn is one
action, and `Model.steps` returns everything that may happen next. A search over
these steps (`search.py`) sees every order of events within the bounds, which no
number of random runs does. Messages are reduced to their effects: one step
handles a fetch, and a later one applies or loses the answer, so that anything
may happen in between. The controller agrees to ISR changes at once.

A state is tuples of integers all the way down, so that its hash is the same in
every process. Replicas and epochs are numbered from 0; replica 0 leads epoch 0,
all replicas know it and are in sync. Sets of replicas are bit masks.

Left out, since separate small models would serve better: proposals in flight
(the maximal ISR), eligible leader replicas, broker epochs, time.

Sources: KIP-101, KIP-279, KIP-320, KIP-497, KIP-595, and Kafka's TLA+ models in
Jason Gustafson's kafka-specification.
"""

from typing import Final, NamedTuple, TypeVar

from syncline.check.bounds import Bounds, Property, Rules, Truncation
from syncline.check.properties import Log, disagree, end_of_epoch, is_prefix

# Roles. A replica that WAITS runs, but has learned nothing since its restart; one that ASKS does not know yet at which
# offset its log and the leader's diverge.
DOWN: Final = 0
WAITING: Final = 1
ASKING: Final = 2
FETCHING: Final = 3
LEADING: Final = 4

# Answers on their way to a follower.
RECORDS: Final = 0
DIVERGING: Final = 1
OUT_OF_RANGE: Final = 2

NONE: Final = -1

_T = TypeVar("_T")

# role, epoch, leader, in-sync set as this replica knows it as leader, high watermark, log, log ends of the followers
Replica = tuple[int, int, int, int, int, Log, tuple[int, ...]]
# kind, follower's epoch and log end when it fetched, records, then high watermark or (diverging epoch, end)
Answer = tuple[int, int, int, Log, int, int]
# leader and in-sync set of one epoch
Announcement = tuple[int, int]
Action = tuple[str, int, int]


class State(NamedTuple):
    """The whole state at one moment."""

    replicas: tuple[Replica, ...]
    answers: tuple[Answer | tuple[()], ...]
    """One in flight per follower."""
    epoch: int
    """The controller's, with its leader and in-sync set."""
    leader: int
    isr: int
    announced: tuple[Announcement, ...]
    """The announcement of each epoch, by epoch."""
    committed: Log
    """The longest prefix that any leader has ever committed. Only the checks use it."""
    produced: int
    crashes: int
    power_cuts: int


class Step(NamedTuple):
    """Something that may happen, and what it leads to."""

    action: Action
    state: State
    violated: Property | None


class Model:
    """All that may happen, within bounds and under rules."""

    def __init__(self, bounds: Bounds, rules: Rules) -> None:
        self.bounds = bounds
        self.rules = rules
        self._unknown_ends = (NONE,) * bounds.replicas

    def initial(self) -> State:
        """Return the state before anything happened."""
        all_in_sync = (1 << self.bounds.replicas) - 1
        follower: Replica = (FETCHING, 0, 0, 0, 0, (), ())
        replicas = ((LEADING, 0, 0, all_in_sync, 0, (), self._unknown_ends), *[follower] * (self.bounds.replicas - 1))
        nothing: tuple[()] = ()
        return State(replicas, (nothing,) * len(replicas), 0, 0, all_in_sync, ((0, all_in_sync),), (), 0, 0, 0)

    def steps(self, state: State) -> list[Step]:
        """Return everything that may happen in `state`, in an order that is always the same."""
        steps: list[Step] = []
        for me, replica in enumerate(state.replicas):
            role = replica[0]
            if role == DOWN:
                self._restart(state, me, steps)
                continue
            if role == LEADING:
                self._produce(state, me, steps)
                self._change_isr(state, me, steps)
            elif role != WAITING and not state.answers[me]:
                self._ask_leader(state, me, steps)
            if state.answers[me]:
                self._receive(state, me, steps)
            self._learn(state, me, steps)
            self._crash(state, me, steps)
        self._elect(state, steps)
        return steps

    def _produce(self, state: State, me: int, steps: list[Step]) -> None:
        """A leader appends a producer's record, numbered and stamped with the epoch."""
        if state.produced == self.bounds.records:
            return
        role, epoch, leader, isr, mark, log, known_ends = state.replicas[me]
        longer = (*log, (state.produced, epoch))
        replica, committed, violated = self._commit(
            me, (role, epoch, leader, isr, mark, longer, known_ends), state.committed
        )
        steps.append(
            Step(
                ("produce", me, NONE),
                state._replace(
                    replicas=_put(state.replicas, me, replica), committed=committed, produced=state.produced + 1
                ),
                violated,
            )
        )

    def _commit(self, me: int, replica: Replica, committed: Log) -> tuple[Replica, Log, Property | None]:
        """Move a leader's high watermark to what every member of its in-sync set has."""
        role, epoch, leader, isr, mark, log, known_ends = replica
        end = len(log)
        for other, acknowledged in enumerate(known_ends):
            if acknowledged < end and other != me and isr >> other & 1:
                end = acknowledged
        if end <= mark or isr.bit_count() < self.rules.isr_size_min:
            return replica, committed, None
        shared = min(end, len(committed))
        violated = None
        if log[:shared] != committed[:shared] and Property.COMMITS_STAND in self.rules.properties:
            violated = Property.COMMITS_STAND
        return (role, epoch, leader, isr, end, log, known_ends), committed if shared == end else log[:end], violated

    def _change_isr(self, state: State, me: int, steps: list[Step]) -> None:
        """A leader drops a lagging follower, or adds one; the controller agrees unless it knows a newer epoch."""
        role, epoch, leader, isr, mark, log, known_ends = state.replicas[me]
        if epoch != state.epoch:
            return
        enough = mark
        if self.rules.epoch_start:
            # A predecessor may have committed records below the start of its epoch without this leader knowing.
            enough = max(mark, end_of_epoch(log, epoch - 1))
        for other, acknowledged in enumerate(known_ends):
            if other == me:
                continue
            bit = 1 << other
            if isr & bit:
                if acknowledged != len(log):
                    shrunk = isr & ~bit
                    replica, committed, violated = self._commit(
                        me, (role, epoch, leader, shrunk, mark, log, known_ends), state.committed
                    )
                    after = state._replace(replicas=_put(state.replicas, me, replica), isr=shrunk, committed=committed)
                    steps.append(Step(("shrink", me, other), after, violated))
            elif acknowledged >= enough and state.replicas[other][0] != DOWN:
                replica = (role, epoch, leader, isr | bit, mark, log, known_ends)
                after = state._replace(replicas=_put(state.replicas, me, replica), isr=isr | bit)
                steps.append(Step(("expand", me, other), after, None))

    def _ask_leader(self, state: State, me: int, steps: list[Step]) -> None:
        role, epoch, leader, _, _, _, _ = state.replicas[me]
        source = state.replicas[leader]
        if source[0] != LEADING or (source[1] != epoch and self.rules.fence):
            return
        if role == ASKING:
            self._ask_end(state, me, steps)
        else:
            self._fetch(state, me, steps)

    def _ask_end(self, state: State, me: int, steps: list[Step]) -> None:
        """A follower asks where the epoch of its last record ends, and cuts its log as far as the answer says."""
        _, epoch, leader, isr, mark, log, known_ends = state.replicas[me]
        source = state.replicas[leader]
        last = log[-1][1]
        # A leader believes its own epoch to be the newest, so its log end is the end of that epoch.
        theirs = _epoch_at(source[5], last) if last < source[1] else last
        end = end_of_epoch(source[5], last)
        role = FETCHING
        if self.rules.truncation is Truncation.ONE_ROUND:
            keep = min(end, len(log))
        else:
            mine = _epoch_at(log, theirs)
            keep = min(end_of_epoch(log, theirs), len(log))
            if mine == theirs:
                keep = min(keep, end)
            elif keep:
                role = ASKING
        replica = (role, epoch, leader, isr, min(mark, keep), log[:keep], known_ends)
        steps.append(
            Step(
                ("ask", me, leader),
                _with(state, _put(state.replicas, me, replica), state.answers, state.committed),
                None,
            )
        )

    def _fetch(self, state: State, me: int, steps: list[Step]) -> None:
        """A leader handles a fetch: it records the follower's log end, and sends the records that follow."""
        _, epoch, leader, _, _, log, _ = state.replicas[me]
        role, leader_epoch, itself, isr, mark, theirs, known_ends = state.replicas[leader]
        position = len(log)
        action = ("fetch", me, leader)
        if self.rules.truncation is Truncation.EPOCH_FETCH and log:
            last = log[-1][1]
            if last <= leader_epoch:
                known = last if last == leader_epoch else _epoch_at(theirs, last)
                end = end_of_epoch(theirs, last)
                if known < last or end < position:
                    answer: Answer = (DIVERGING, epoch, position, (), known, end)
                    steps.append(Step(action, state._replace(answers=_put(state.answers, me, answer)), None))
                    return
            else:
                position = len(theirs) + 1
        if position > len(theirs):
            answer = (OUT_OF_RANGE, epoch, len(log), (), NONE, len(theirs))
            steps.append(Step(action, state._replace(answers=_put(state.answers, me, answer)), None))
            return
        violated = None
        if leader_epoch == epoch and Property.ACCEPTED_FETCH in self.rules.properties and not is_prefix(log, theirs):
            violated = Property.ACCEPTED_FETCH
        # The answer carries the high watermark from before this fetch raised it.
        answer = (RECORDS, epoch, position, theirs[position:], mark, NONE)
        replica, committed, overwritten = self._commit(
            leader, (role, leader_epoch, itself, isr, mark, theirs, _put(known_ends, me, position)), state.committed
        )
        after = _with(state, _put(state.replicas, leader, replica), _put(state.answers, me, answer), committed)
        steps.append(Step(action, after, violated or overwritten))

    def _receive(self, state: State, me: int, steps: list[Step]) -> None:
        """An answer is lost, or it arrives and is applied if the follower has not moved since it fetched."""
        answer = state.answers[me]
        assert answer, "only an answer in flight can arrive"
        answers = _put(state.answers, me, ())
        steps.append(Step(("lose", me, NONE), _with(state, state.replicas, answers, state.committed), None))
        kind, sent_in, position, records, first, end = answer
        role, epoch, leader, isr, mark, log, known_ends = state.replicas[me]
        if role != FETCHING or sent_in != epoch or position != len(log):
            return
        if kind == RECORDS:
            log += records
            mark = min(first, len(log))
        else:
            keep = min(end, len(log))
            if kind == DIVERGING:
                mine = end_of_epoch(log, first)
                keep = min(mine, end) if _epoch_at(log, first) == first else mine
            log, mark = log[:keep], min(mark, keep)
        replicas = _put(state.replicas, me, (role, epoch, leader, isr, mark, log, known_ends))
        steps.append(Step(("apply", me, NONE), _with(state, replicas, answers, state.committed), None))

    def _learn(self, state: State, me: int, steps: list[Step]) -> None:
        """A replica learns the announcement of a newer epoch, perhaps not the newest, and takes its role in it."""
        role, epoch, _, _, mark, log, _ = state.replicas[me]
        oldest = epoch + 1
        if role == WAITING:
            oldest = state.epoch if self.rules.catch_up else epoch
        for learned in range(state.epoch, oldest - 1, -1):
            leader, isr = state.announced[learned]
            if role == WAITING and learned == state.epoch:
                isr = state.isr
            committed, violated = state.committed, None
            if leader == me:
                replica, committed, violated = self._commit(
                    me, (LEADING, learned, me, isr, mark, log, self._unknown_ends), committed
                )
                if learned == state.epoch and not is_prefix(state.committed, log):
                    violated = Property.LEADER_COMPLETENESS
            elif self.rules.truncation is Truncation.HIGH_WATERMARK:
                replica = (FETCHING, learned, leader, 0, mark, log[:mark], ())
            elif self.rules.truncation is Truncation.EPOCH_FETCH or not log:
                replica = (FETCHING, learned, leader, 0, mark, log, ())
            else:
                replica = (ASKING, learned, leader, 0, mark, log, ())
            if violated not in self.rules.properties:
                violated = None
            after = _with(state, _put(state.replicas, me, replica), _put(state.answers, me, ()), committed)
            steps.append(Step(("learn", me, learned), after, violated))

    def _elect(self, state: State, steps: list[Step]) -> None:
        """The controller begins an epoch with another in-sync member, because the leader is down or as a transfer."""
        if state.epoch + 1 == self.bounds.epochs:
            return
        is_down = state.replicas[state.leader][0] == DOWN
        if not is_down and not self.rules.transfers:
            return
        isr = state.isr
        if is_down:
            isr = sum(
                1 << each for each, replica in enumerate(state.replicas) if isr >> each & 1 and replica[0] != DOWN
            )
        for other, replica in enumerate(state.replicas):
            if other != state.leader and isr >> other & 1 and replica[0] != DOWN:
                after = state._replace(
                    epoch=state.epoch + 1, leader=other, isr=isr, announced=(*state.announced, (other, isr))
                )
                steps.append(Step(("elect" if is_down else "transfer", other, state.epoch + 1), after, None))

    def _crash(self, state: State, me: int, steps: list[Step]) -> None:
        """A process dies; its log, high watermark and epoch survive. A power cut also takes the tail of the log."""
        _, epoch, _, _, mark, log, _ = state.replicas[me]
        answers = _put(state.answers, me, ())
        if state.crashes < self.bounds.crashes and (not self.rules.leader_crashes_only or me == state.leader):
            replicas = _put(state.replicas, me, (DOWN, epoch, NONE, 0, mark, log, ()))
            after = state._replace(replicas=replicas, answers=answers, crashes=state.crashes + 1)
            steps.append(Step(("crash", me, NONE), after, None))
        if state.power_cuts < self.bounds.power_cuts:
            for keep in range(len(log) - 1, -1, -1):
                replicas = _put(state.replicas, me, (DOWN, epoch, NONE, 0, min(mark, keep), log[:keep], ()))
                after = state._replace(replicas=replicas, answers=answers, power_cuts=state.power_cuts + 1)
                steps.append(Step(("power cut", me, keep), after, None))

    def _restart(self, state: State, me: int, steps: list[Step]) -> None:
        _, epoch, leader, isr, mark, log, known_ends = state.replicas[me]
        replicas = _put(state.replicas, me, (WAITING, epoch, leader, isr, mark, log, known_ends))
        steps.append(Step(("restart", me, NONE), _with(state, replicas, state.answers, state.committed), None))

    def violated_in(self, state: State) -> Property | None:
        """Return the property that `state` itself violates, if any, whatever the history."""
        if Property.LOG_MATCHING not in self.rules.properties:
            return None
        replicas = state.replicas
        for index, one in enumerate(replicas):
            for other in replicas[index + 1 :]:
                if one[5] is not other[5] and disagree(one[5], one[4], other[5], other[4]):
                    return Property.LOG_MATCHING
        return None


def _with(
    state: State, replicas: tuple[Replica, ...], answers: tuple[Answer | tuple[()], ...], committed: Log
) -> State:
    """Return `state` with the fields that most steps change; takes half the time of `_replace`."""
    _, _, epoch, leader, isr, announced, _, produced, crashes, power_cuts = state
    return State(replicas, answers, epoch, leader, isr, announced, committed, produced, crashes, power_cuts)


def _put(items: tuple[_T, ...], index: int, item: _T) -> tuple[_T, ...]:
    return (*items[:index], item, *items[index + 1 :])


def _epoch_at(log: Log, epoch: int) -> int:
    """Return the newest epoch in `log` that is at most `epoch`, NONE if there is none."""
    end = end_of_epoch(log, epoch)
    return log[end - 1][1] if end else NONE
