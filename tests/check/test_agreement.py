"""The model against the code: wherever the model decides, `core` decides the same, in every state within bounds.

A rule that is changed in only one of the two fails here, with the state that
shows the difference.
"""

from collections.abc import Iterator

import pytest

from syncline.check import model
from syncline.check.bounds import Bounds, Rules, Truncation
from syncline.check.model import Log, Model, State, Step
from syncline.core.replication import isr, truncation, watermark
from syncline.core.replication.follower_state import FollowerState
from syncline.core.replication.known_brokers import BrokerStanding, KnownBrokers
from syncline.core.replication.lag_policy import TimeLag
from syncline.core.replication.leader_epochs import EpochCache, EpochEnd
from syncline.model.ids import BrokerEpoch, BrokerId, Offset

BOUNDS = Bounds(2, 3, 3, 1)
# A leader alone has its log end as its high watermark: only a third may be above the mark, yet below the epoch's start.
OF_THREE = Bounds(3, 1, 3, 0)
STATES_MAX = 12_000
EVERYBODY = KnownBrokers({BrokerId(index): BrokerStanding(BrokerEpoch(1)) for index in range(OF_THREE.replicas)})


def follower(broker_id: int, log_end: int, *, counts: bool) -> FollowerState:
    """Return what a leader knows of a follower."""
    state = FollowerState(BrokerId(broker_id), 0)
    state.log_end, state.counts, state.broker_epoch = Offset(log_end), counts, BrokerEpoch(1)
    return state


def reachable(rules: Rules, bounds: Bounds = BOUNDS) -> Iterator[tuple[State, Step]]:
    """Yield every step from every state, nearest first, up to a limit."""
    machine = Model(bounds, rules)
    seen = {machine.initial()}
    frontier = [machine.initial()]
    while frontier and len(seen) < STATES_MAX:
        found = []
        for state in frontier:
            for step in machine.steps(state):
                yield state, step
                if step.state not in seen:
                    seen.add(step.state)
                    found.append(step.state)
        frontier = found


def cache_of(log: Log, leading: int = model.NONE) -> EpochCache:
    """Return what the code would remember of a log, and of the epoch that its owner leads."""
    entries = [(epoch, offset) for offset, (_, epoch) in enumerate(log)]
    cache = EpochCache(entries)
    if leading != model.NONE:
        starts = [offset for epoch, offset in entries if epoch == leading]
        cache.assign(leading, starts[0] if starts else len(log))
    return cache


def test_fetches_diverge_where_the_code_says_so() -> None:
    """`find_divergence` and `truncation_point` cut a follower's log exactly as far as the model does."""
    compared = 0
    for state, step in reachable(Rules()):
        verb, me, leader = step.action
        if verb != "fetch":
            continue
        mine, theirs = state.replicas[me][5], state.replicas[leader][5]
        last = mine[-1][1] if mine else model.NONE
        leaders = cache_of(theirs, state.replicas[leader][1])
        found = truncation.find_divergence(leaders, last, len(mine), 0, len(theirs))
        answer = step.state.answers[me]
        assert answer
        assert (answer[0] == model.RECORDS) == (found is None)
        if answer[0] != model.DIVERGING:
            continue
        assert isinstance(found, EpochEnd)
        point = truncation.truncation_point(found, cache_of(mine), len(mine), state.replicas[me][4])
        applied = next(each for each in Model(BOUNDS, Rules()).steps(step.state) if each.action[:2] == ("apply", me))
        assert point.offset == len(applied.state.replicas[me][5])
        compared += 1

    assert compared > 100


def test_questions_are_answered_as_the_code_answers_them() -> None:
    """`epoch-request`: the same cut, and asking again in the same cases."""
    compared = 0
    for state, step in reachable(Rules(Truncation.EPOCH_REQUEST)):
        verb, me, leader = step.action
        if verb != "ask":
            continue
        mine, theirs = state.replicas[me][5], state.replicas[leader][5]
        end = cache_of(theirs, state.replicas[leader][1]).end_offset_for(mine[-1][1], len(theirs))
        point = truncation.truncation_point(end, cache_of(mine), len(mine), state.replicas[me][4])
        role, _, _, _, _, log, _ = step.state.replicas[me]
        assert point.offset == len(log)
        # A log that became empty has nothing left to ask about; the code's next question is a fetch, too.
        assert point.is_finished == (role == model.FETCHING) or not log
        compared += 1

    assert compared > 100


@pytest.mark.parametrize("verb", ["produce", "fetch", "shrink"])
def test_high_watermarks_move_as_in_the_code(verb: str) -> None:
    """`watermark.reached` gives the model's mark, wherever a leader's mark may move."""
    compared = 0
    for state, step in reachable(Rules()):
        if step.action[0] != verb:
            continue
        me = step.action[2] if verb == "fetch" else step.action[1]
        _, _, _, members, mark, log, known_ends = step.state.replicas[me]
        followers = [
            follower(each, end, counts=bool(members >> each & 1)) for each, end in enumerate(known_ends) if each != me
        ]
        reached = watermark.reached(len(log), followers, TimeLag(0), KnownBrokers(), 1)
        assert mark == max(reached, state.replicas[me][4])
        compared += 1

    assert compared > 100


def test_followers_join_when_the_code_lets_them() -> None:
    """`may_join` holds in exactly the states in which the model offers to expand, for replicas that run."""
    joined = refused = 0
    rules = Rules()
    machine = Model(OF_THREE, rules)
    for state in {step.state for _, step in reachable(rules, OF_THREE)}:
        offered = {step.action[1:] for step in machine.steps(state) if step.action[0] == "expand"}
        for me, (role, epoch, _, members, mark, log, known_ends) in enumerate(state.replicas):
            if role != model.LEADING or epoch != state.epoch:
                continue
            start = next((offset for offset, (_, each) in enumerate(log) if each == epoch), len(log))
            for other, end in enumerate(known_ends):
                if other == me or members >> other & 1 or state.replicas[other][0] == model.DOWN:
                    continue
                may = isr.may_join(follower(other, end, counts=False), mark, start, EVERYBODY)
                assert may == ((me, other) in offered)
                joined, refused = joined + may, refused + (not may)

    assert joined > 100
    assert refused > 100


@pytest.mark.parametrize(
    ("module", "name", "mistake", "comparison"),
    [
        pytest.param(truncation, "find_divergence", lambda *_: None, "fetches", id="no divergence is seen"),
        pytest.param(
            truncation,
            "truncation_point",
            lambda answer, _, log_end, __: truncation.Truncation(min(answer.end_offset, log_end), True, ""),
            "questions",
            id="one round only",
        ),
        pytest.param(watermark, "reached", lambda log_end, *_: log_end, "marks", id="the mark waits for no follower"),
        pytest.param(
            isr, "may_join", lambda follower, mark, *_: follower.log_end >= mark, "joining", id="no epoch start"
        ),
    ],
)
def test_mistakes_in_the_code_are_noticed(
    monkeypatch: pytest.MonkeyPatch, module: object, name: str, mistake: object, comparison: str
) -> None:
    """Comparisons that nothing could fail would prove nothing."""
    monkeypatch.setattr(module, name, mistake)
    compare = {
        "fetches": test_fetches_diverge_where_the_code_says_so,
        "questions": test_questions_are_answered_as_the_code_answers_them,
        "marks": lambda: test_high_watermarks_move_as_in_the_code("produce"),
        "joining": test_followers_join_when_the_code_lets_them,
    }[comparison]

    with pytest.raises(AssertionError):
        compare()
