"""Deadlines by key, against the obvious way to keep them."""

from hypothesis import given
from hypothesis import strategies as st

from syncline.core.groups.timers import Timers
from tests.roomy_tables import roomy_tables

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), st.integers(0, 4), st.integers(0, 50)),
        st.tuples(st.just("cancel"), st.integers(0, 4), st.just(0)),
        st.tuples(st.just("pass"), st.just(0), st.integers(0, 20)),
    ),
    max_size=60,
)


@given(STEPS)
def test_timers_fire_like_a_plain_dict_of_deadlines(steps: list[tuple[str, int, int]]) -> None:
    """Exactly what is due fires, and `next_ms` is never later than the earliest deadline."""
    timers: Timers[int] = Timers()
    plain: dict[int, int] = {}
    now_ms = 0
    for step, key, number in steps:
        if step == "set":
            timers.set(key, now_ms + number)
            plain[key] = now_ms + number
        elif step == "cancel":
            timers.cancel(key)
            plain.pop(key, None)
        else:
            now_ms += number
            fired = []
            while (due := timers.pop_due(now_ms)) is not None:
                fired.append(due)
            assert sorted(fired) == sorted(each for each, deadline_ms in plain.items() if deadline_ms <= now_ms)
            plain = {each: deadline_ms for each, deadline_ms in plain.items() if deadline_ms > now_ms}
        timers.check_invariants()
        next_ms = timers.next_ms()
        assert (next_ms is None) == (not plain)
        assert next_ms is None or next_ms <= min(plain.values())


def test_timers_put_back_again_and_again_cost_one_entry() -> None:
    """A heartbeat overwrites a number; the heap does not grow."""
    timers: Timers[str] = Timers()

    for now_ms in range(1_000):
        timers.set("session", now_ms + 10_000)

    assert timers.entry_count == 1


def test_timers_of_thousands_of_members_leave_no_room_behind() -> None:
    """Some are cancelled, the others fire."""
    timers: Timers[int] = Timers()
    for member in range(3_000):
        timers.set(member, 10_000 + member)
    for member in range(0, 3_000, 2):
        timers.cancel(member)
    while timers.pop_due(13_000) is not None:
        pass

    assert timers.entry_count == 0
    assert roomy_tables(timers) == ""
