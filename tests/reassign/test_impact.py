"""The rate of a move with a bound on what clients feel, among simulated clients."""

import itertools
import math
import random
from collections.abc import Callable
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncline.reassign.control import Range
from syncline.reassign.impact import ANEW_FOR_ANSWERS, JUDGED_ANSWERS, Baseline, Impact, percentile_99

MB = 1_000_000
ANY = Range(50_000, 10**12)
# Two hundred answers per second, and a look each second.
LOOK = 200


class Clients:
    """Clients that wait at least half a millisecond, and of whom a move holds up so many per byte per second."""

    def __init__(self, held_up: Callable[[float], float], seed: int, typical_ms: float = 0.12) -> None:
        self.held_up = held_up
        self.rng = random.Random(seed)
        self.typical_ms = typical_ms

    def waits_ms(self, rate: float, count: int = LOOK) -> list[float]:
        """Return the waits of so many answers while a move has this rate."""
        share = min(self.held_up(rate), 1.0)
        return [
            0.5
            + self.rng.expovariate(1 / self.typical_ms)
            + (self.rng.uniform(0.3, 5.0) if self.rng.random() < share else 0.0)
            for _ in range(count)
        ]

    def limit_ms(self, bound_percent: float) -> float:
        """Return the true limit: the 99th percentile without a move, and the bound on top."""
        return (0.5 + self.typical_ms * math.log(100)) * (1 + bound_percent / 100)

    def highest_share(self, bound_percent: float) -> float:
        """Return which share of answers a move may hold up at all."""
        without = math.exp(-(self.limit_ms(bound_percent) - 0.5) / self.typical_ms)
        return 0.01 - without


def begin(clients: Clients, *, rate: int = MB, bound_percent: float = 10.0, allowed: Range = ANY) -> Impact:
    """Return a search after ten seconds of clients without the move."""
    return Impact(bound_percent, allowed, rate, Baseline.of(clients.waits_ms(0, 10 * LOOK), bound_percent))


def steer(clients: Clients, search: Impact, looks: int) -> tuple[float, list[int], Impact]:
    """Return the share of answers above the true limit, the rates, and the search after so many looks."""
    limit_ms = clients.limit_ms(search.bound_percent)
    slow, rates = 0, []
    for _ in range(looks):
        rates.append(search.rate_bytes_per_s)
        waits_ms = clients.waits_ms(search.rate_bytes_per_s)
        slow += sum(wait > limit_ms for wait in waits_ms)
        search = search.answered(waits_ms)
    return slow / (looks * LOOK), rates, search


@pytest.mark.parametrize("power", [1, 2], ids=["proportional", "steeper"])
@pytest.mark.parametrize("per_mb", [0.0001, 0.001, 0.004], ids=["fast-machine", "machine", "slow-machine"])
def test_p99_of_a_whole_move_stays_in_its_bound_and_the_move_is_not_starved(per_mb: float, power: int) -> None:
    """Twenty moves of 40 s: in 18 at least, one answer of a hundred at most is above the limit that nobody told."""
    held = []
    used = []
    for seed in range(20):
        clients = Clients(lambda rate: (per_mb * rate / MB) ** power, seed)
        share, rates, _ = steer(clients, begin(clients), 40)
        highest = clients.highest_share(10.0) ** (1 / power) / per_mb * MB
        held.append(share <= 0.01)
        used.append(sum(rates[20:]) / 20 / highest)

    assert sum(held) >= 18
    assert 0.2 <= sum(used) / len(used) < 1


def test_rate_rises_while_clients_feel_nothing_and_only_as_fast_as_there_is_evidence() -> None:
    """Never by more than a half in a second; a hundredfold within half a minute."""
    clients = Clients(lambda _: 0.0, 1)
    _, rates, _ = steer(clients, begin(clients), 40)

    assert all(later <= 1.5 * rate + 1 for rate, later in itertools.pairwise(rates))
    assert rates[30] > 50 * MB


def test_clients_that_are_overrun_get_relief_at_once() -> None:
    """A tenth of the answers is slow at ten times the bearable rate: it is halved each second until it is below it."""
    clients = Clients(lambda rate: 0.01 * rate / MB, 2)
    highest = clients.highest_share(10.0) / 0.01 * MB
    _, rates, _ = steer(clients, begin(clients, rate=10 * MB), 20)

    assert rates[1:4] == [5 * MB, 2_500_000, 1_250_000]
    assert rates[8] < 1.2 * highest


def test_look_without_answers_lowers_the_rate() -> None:
    """Answers that never come are slow ones, and no limit is made of them."""
    clients = Clients(lambda _: 0.0, 3)
    search = begin(clients, rate=80_000, allowed=Range(50_000, MB))
    for _ in range(60):
        search = search.answered([math.inf] * 100)

    assert search.rate_bytes_per_s == 50_000
    assert search.baseline == search.first


def test_clients_that_are_slow_for_another_reason_do_not_stop_the_move() -> None:
    """They wait three times as long, whatever the rate; it falls, the limit is set anew, and it rises again."""
    last = []
    for seed in range(9):
        clients = Clients(lambda _: 0.0, seed)
        search = begin(clients)
        clients.typical_ms *= 3
        _, rates, search = steer(clients, search, 60)
        last.append(rates[-1])

        assert min(rates) == ANY.min_bytes_per_s
        assert search.anew is not None
        assert search.anew.p99_ms == pytest.approx(clients.limit_ms(10.0) / 1.1, rel=0.25)
    assert median(last) > MB


@pytest.mark.parametrize("held_up", [0.0, 0.004], ids=["move-harmless", "move-felt"])
def test_first_limit_is_in_force_again_when_that_reason_is_gone(held_up: float) -> None:
    """At once if clients wait less; after a while if the move hides it: then the rate is lowered once more to look."""
    for seed in range(9):
        clients = Clients(lambda rate: held_up * rate / MB, seed)
        search = begin(clients)
        clients.typical_ms *= 3
        _, _, search = steer(clients, search, 40)
        assert search.anew is not None
        clients.typical_ms /= 3
        _, _, search = steer(clients, search, (ANEW_FOR_ANSWERS + 2 * JUDGED_ANSWERS) // LOOK)

        assert search.baseline.limit_ms < 1.3 * clients.limit_ms(10.0)


def test_limit_that_was_measured_in_a_bad_moment_is_corrected_by_better_ones() -> None:
    """Before the move clients waited five times as long; no move makes them faster, so soon they are held to less."""
    shares = []
    for seed in range(9):
        clients = Clients(lambda rate: 0.001 * rate / MB, seed)
        clients.typical_ms *= 5
        search = begin(clients)
        clients.typical_ms /= 5
        _, _, search = steer(clients, search, 15)
        share, _, search = steer(clients, search, 30)
        shares.append(share)

        assert search.first.limit_ms < 1.3 * clients.limit_ms(10.0)
    assert median(shares) <= 0.012


@given(st.lists(st.floats(0, 1e4), min_size=1, max_size=400), st.integers(50_000, 10**9))
def test_rate_stays_within_what_is_allowed_whatever_clients_feel(waits_ms: list[float], rate: int) -> None:
    """Upwards and downwards."""
    allowed = Range(50_000, 10**9)
    search = Impact(10.0, allowed, rate, Baseline(1.0, 1.1, 0.005)).answered(waits_ms)

    assert allowed.min_bytes_per_s <= search.rate_bytes_per_s <= allowed.max_bytes_per_s
    assert 0.5 * rate - 1 <= search.rate_bytes_per_s <= 1.5 * rate + 1 or search.rate_bytes_per_s == 50_000


@given(st.lists(st.floats(0, 1e3), min_size=100, max_size=1000))
def test_percentile_and_limit_say_the_same(waits_ms: list[float]) -> None:
    """At most one in a hundred is above the percentile, and one more would be too many."""
    p99_ms = percentile_99(waits_ms)

    assert sum(wait > p99_ms for wait in waits_ms) <= len(waits_ms) // 100
    assert sum(wait >= p99_ms for wait in waits_ms) > len(waits_ms) // 100
    assert Baseline.of(waits_ms, 10.0).room >= 0.002
