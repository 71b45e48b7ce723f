"""What clients are told of brokers that just died."""

from dataclasses import dataclass

from syncline.node.departures import DOUBT_MS, LISTED_MS, Departures


@dataclass
class Watch:
    """A clock that is set by hand."""

    now_ms: int = 0

    def mono_ms(self) -> int:
        """Return the set time."""
        return self.now_ms

    def wall_ms(self) -> int:
        """Return the set time."""
        return self.now_ms


def test_departures_doubt_a_leader_for_a_moment_when_its_connection_broke() -> None:
    """A doubt ends by itself: connections break without a death, too."""
    watch = Watch()
    departures = Departures(watch)
    departures.connection_broke(2)
    watch.now_ms = DOUBT_MS - 1
    assert departures.doubted() == {2}
    watch.now_ms = DOUBT_MS
    assert departures.doubted() == frozenset()


def test_departures_trust_a_leader_again_when_it_answers() -> None:
    """An answer proves that the process lives, and says nothing of another leader."""
    departures = Departures(Watch())
    departures.connection_broke(2)
    departures.connection_broke(3)
    departures.answered(2)
    assert departures.doubted() == {3}


def test_departures_keep_a_fenced_broker_listed_for_some_seconds() -> None:
    """Its clients move their partitions first, and drop the broker later."""
    watch = Watch()
    departures = Departures(watch)
    departures.fenced(1)
    watch.now_ms = LISTED_MS - 1
    assert (departures.just_fenced(), departures.doubted()) == ({1}, frozenset())
    watch.now_ms = LISTED_MS
    assert departures.just_fenced() == frozenset()
