"""The follower's half of a fetch session."""

from syncline.core.fetching.fetcher import LISTED_MAX, Fetcher, FetchRequestPlan
from syncline.core.fetching.limits import RECORD_ROWS_MAX
from syncline.core.replication.follower import EpochQuestion, FetchAsk, FollowerPartition
from syncline.core.replication.leader_epochs import EpochCache, EpochEnd
from syncline.core.replication.truncation import TruncationMode
from syncline.model.errors import ErrorCode


def partition(offset: int = 0) -> FollowerPartition:
    """Return a follower at `offset` in leader epoch 5."""
    follower = FollowerPartition(1000)
    follower.follow(5, log_start=0, log_end=offset, high_watermark=offset, latest_epoch=5)
    return follower


def request(fetcher: Fetcher[str], now: int = 0) -> FetchRequestPlan[str]:
    """Return the next request, which must exist."""
    fetcher.check_invariants()
    plan = fetcher.next_request(now)
    fetcher.check_invariants()
    assert plan is not None
    return plan


def ask(offset: int) -> FetchAsk:
    """Return the request of a follower at `offset`."""
    return FetchAsk(offset, 5, 5, 0)


def started() -> tuple[Fetcher[str], FollowerPartition, FollowerPartition]:
    """Return a fetcher whose session 77 covers two partitions."""
    fetcher: Fetcher[str] = Fetcher()
    first, second = partition(), partition()
    fetcher.add("t-0", first)
    fetcher.add("t-1", second)
    assert request(fetcher) == FetchRequestPlan(0, 0, [("t-0", ask(0)), ("t-1", ask(0))], [])
    fetcher.answered(77)
    return fetcher, first, second


def test_fetcher_lists_only_what_changed() -> None:
    """The session remembers the rest."""
    fetcher, first, _ = started()
    assert request(fetcher) == FetchRequestPlan(77, 1, [], [])
    fetcher.answered(77)

    first.appended(log_end=9, log_start=0, latest_epoch=5, leader_high_watermark=9)
    fetcher.processed("t-0")

    assert request(fetcher) == FetchRequestPlan(77, 2, [("t-0", ask(9))], [])
    assert fetcher.sent("t-0") == ask(9)


def test_fetcher_forgets_removed_and_held_partitions() -> None:
    """A held partition is fetched again when it is released."""
    fetcher, _, _ = started()
    fetcher.add("t-2", partition())
    fetcher.remove("t-0")
    fetcher.hold("t-1")

    assert request(fetcher) == FetchRequestPlan(77, 1, [("t-2", ask(0))], ["t-0", "t-1"])
    fetcher.answered(77)
    fetcher.release("t-1")

    assert request(fetcher) == FetchRequestPlan(77, 2, [("t-1", ask(0))], [])


def test_fetcher_leaves_a_backing_off_partition_out_until_it_is_ready() -> None:
    """And says when that will be."""
    fetcher, first, _ = started()
    first.refused(ask(0), ErrorCode.NOT_LEADER_OR_FOLLOWER, 100)
    fetcher.touch("t-0")

    assert request(fetcher, 100).forgotten == ["t-0"]
    assert fetcher.next_wake_ms() == 1100
    fetcher.answered(77)

    assert request(fetcher, 1100).listed == [("t-0", ask(0))]
    assert fetcher.next_wake_ms() is None


def test_fetcher_has_nothing_to_ask_while_all_back_off() -> None:
    """The next opening request closes a session that became empty."""
    fetcher, _, _ = started()
    fetcher.disconnected(100)

    assert fetcher.next_request(100) is None
    assert fetcher.next_wake_ms() == 1100

    assert request(fetcher, 1100) == FetchRequestPlan(77, 0, [("t-0", ask(0)), ("t-1", ask(0))], [])


def test_fetcher_starts_anew_when_the_session_is_unknown() -> None:
    """A full request without id; naming a session that is only out of step closes it."""
    fetcher, _, _ = started()
    fetcher.session_refused(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    plan = request(fetcher)
    assert (plan.session_id, plan.session_epoch, len(plan.listed)) == (0, 0, 2)
    fetcher.answered(78)

    fetcher.session_refused(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
    plan = request(fetcher)

    assert (plan.session_id, plan.session_epoch, len(plan.listed)) == (78, 0, 2)


def test_fetcher_without_a_session_sends_everything() -> None:
    """A leader without free slots answers with id 0."""
    fetcher, _, _ = started()

    fetcher.answered(0)

    assert len(request(fetcher).listed) == 2


def test_fetcher_serves_all_in_turn() -> None:
    """In a full request, what was served comes last."""
    fetcher, _, _ = started()
    fetcher.processed("t-0")
    fetcher.answered(0)

    assert [key for key, _ in request(fetcher).listed] == ["t-1", "t-0"]


def test_fetcher_costs_nothing_for_idle_partitions() -> None:
    """One of 2000 changed: one is listed."""
    fetcher: Fetcher[str] = Fetcher()
    followers = {f"t-{i}": partition() for i in range(2000)}
    for key, follower in followers.items():
        fetcher.add(key, follower)
    while request(fetcher).is_partial:
        fetcher.answered(77)
    fetcher.answered(77)

    followers["t-7"].appended(log_end=1, log_start=0, latest_epoch=5, leader_high_watermark=1)
    fetcher.touch("t-7")

    assert [key for key, _ in request(fetcher).listed] == ["t-7"]


def test_request_lists_no_more_than_either_side_works_on_at_once() -> None:
    """The others come with the next requests of the session; so do those to forget, and a session that ends empty."""
    fetcher: Fetcher[str] = Fetcher()
    keys = [f"t-{i}" for i in range(2 * LISTED_MAX + 10)]
    for key in keys:
        fetcher.add(key, partition())
    plans = []
    for _ in range(3):
        plans.append(request(fetcher))
        fetcher.answered(77)
    for key in keys:
        fetcher.hold(key)
    forgets = request(fetcher)
    fetcher.answered(77)
    for key in keys[-5:]:
        fetcher.release(key)
    last = [request(fetcher)]
    fetcher.answered(77)

    assert [key for plan in plans for key, _ in plan.listed] == keys
    assert [(plan.session_epoch, plan.is_partial) for plan in plans] == [(0, True), (1, True), (2, False)]
    assert (forgets.listed, forgets.forgotten, forgets.is_partial) == ([], keys[:LISTED_MAX], True)
    assert (last[0].listed, last[0].forgotten, last[0].is_partial) == ([], keys[LISTED_MAX : 2 * LISTED_MAX], True)
    assert request(fetcher).forgotten == keys[2 * LISTED_MAX : -5]


def test_what_came_with_records_is_listed_before_what_waits_to_be_listed() -> None:
    """The leader sends the same records with each answer until then; the others get the rest of the request."""
    fetcher: Fetcher[str] = Fetcher()
    followers = {f"t-{i}": partition() for i in range(3 * LISTED_MAX)}
    for key, follower in followers.items():
        fetcher.add(key, follower)
    keys = list(followers)
    request(fetcher)
    fetcher.answered(77)
    with_records = keys[LISTED_MAX - RECORD_ROWS_MAX : LISTED_MAX]
    for key in with_records:
        followers[key].appended(log_end=1, log_start=0, latest_epoch=5, leader_high_watermark=0)
        fetcher.processed(key)
        fetcher.touch(key)
    second = request(fetcher)
    fetcher.answered(77)

    new_ones = keys[LISTED_MAX : 2 * LISTED_MAX - RECORD_ROWS_MAX]
    assert second.listed == [
        *((key, ask(1)._replace(last_fetched_epoch=5)) for key in with_records),
        *((key, ask(0)) for key in new_ones),
    ]
    assert [key for key, _ in request(fetcher).listed] == keys[2 * LISTED_MAX - RECORD_ROWS_MAX :][:LISTED_MAX]


def test_what_is_yet_to_be_listed_begins_the_next_session_when_this_one_is_empty() -> None:
    """It would never be fetched: nothing else asks for another request."""
    fetcher: Fetcher[str] = Fetcher()
    keys = [f"t-{i}" for i in range(LISTED_MAX)]
    for key in keys:
        fetcher.add(key, partition())
    request(fetcher)
    fetcher.answered(77)
    for key in keys:
        fetcher.remove(key)
    fetcher.add("new", partition())

    assert request(fetcher) == FetchRequestPlan(77, 0, [("new", ask(0))], [])


def test_request_without_a_session_lists_everything() -> None:
    """The leader has no room for one: the next request would list the same partitions again, and never the others."""
    fetcher: Fetcher[str] = Fetcher()
    keys = [f"t-{i}" for i in range(LISTED_MAX + 1)]
    for key in keys:
        fetcher.add(key, partition())
    first = request(fetcher)
    fetcher.answered(0)
    second = request(fetcher)
    fetcher.answered(77)
    fetcher.session_refused(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)

    assert [len(plan.listed) for plan in (first, second, request(fetcher))] == [LISTED_MAX, LISTED_MAX + 1, LISTED_MAX]


def test_partitions_that_compare_are_no_part_of_the_session() -> None:
    """`epoch-request`: one partition asks, the other fetches; once leader and log agree, both fetch."""
    fetcher: Fetcher[str] = Fetcher()
    comparing = FollowerPartition(1000, mode=TruncationMode.EPOCH_REQUEST)
    comparing.follow(5, log_start=0, log_end=9, high_watermark=9, latest_epoch=4)
    fetcher.add("new", comparing)
    fetcher.add("old", partition(3))

    assert fetcher.next_questions(0) == [("new", EpochQuestion(4, 5))]
    plan = fetcher.next_request(0)
    assert plan is not None
    assert [key for key, _ in plan.listed] == ["old"]
    fetcher.answered(77)
    comparing.compared(EpochEnd(4, 9), EpochCache([(4, 0)]), 9, 9)
    fetcher.restated("new")

    assert fetcher.next_questions(0) == []
    plan = fetcher.next_request(0)
    assert plan is not None
    assert [(key, ask.last_fetched_epoch) for key, ask in plan.listed] == [("new", -1)]


def test_questions_without_an_answer_are_asked_again_after_a_pause() -> None:
    """The connection broke: the next question leaves after the pause, and a timer must wake the fetcher for it."""
    fetcher: Fetcher[str] = Fetcher()
    comparing = FollowerPartition(1000, mode=TruncationMode.EPOCH_REQUEST)
    comparing.follow(5, log_start=0, log_end=9, high_watermark=9, latest_epoch=4)
    fetcher.add("t-0", comparing)
    fetcher.disconnected(100)

    assert fetcher.next_questions(1099) == []
    assert fetcher.next_request(1099) is None
    assert fetcher.next_wake_ms() == 1100
    assert fetcher.next_questions(1100) == [("t-0", EpochQuestion(4, 5))]
    fetcher.remove("t-0")
    assert fetcher.next_questions(1100) == []


def test_fetcher_lists_a_throttled_partition_again_with_its_share() -> None:
    """Another share is another request; without a share the partition asks for as much as configured."""
    fetcher, first, _ = started()
    fetcher.release("t-0", 500)
    limited = request(fetcher)
    fetcher.answered(77)
    fetcher.release("t-0", 500)
    same = request(fetcher)
    fetcher.answered(77)
    fetcher.hold("t-0")
    left_out = request(fetcher)
    fetcher.answered(77)
    fetcher.release("t-0")
    whole = request(fetcher)

    assert limited.listed == [("t-0", ask(0)._replace(limit_bytes=500))]
    assert (same.listed, same.forgotten) == ([], [])
    assert (left_out.listed, left_out.forgotten, fetcher.held_count) == ([], ["t-0"], 0)
    assert whole.listed == [("t-0", ask(0))]
    assert first.accepts(limited.listed[0][1])
