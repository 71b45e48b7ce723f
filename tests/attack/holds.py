"""How long brokers' event loops were held, from the brokers' own metrics; and what became of it between two looks.

A hold includes the time in which its broker waited for a processor. Of holds above 10 ms brokers also say how much was
work of their own.

Durations are ms. A histogram knows a hold only up to the bound of its bucket, so figures are such bounds, or the
broker's longest hold where that is new.
"""

import http.client
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

HISTOGRAM: Final = "syncline_event_loop_hold_seconds"
LONGEST: Final = "syncline_event_loop_longest_hold_seconds"
LONGEST_BY_WORK: Final = "syncline_event_loop_longest_hold_by_work_seconds"
OWN_HISTOGRAM: Final = "syncline_event_loop_own_hold_seconds"
LONGEST_OWN_BY_WORK: Final = "syncline_event_loop_longest_own_hold_by_work_seconds"
TIMEOUT_S: Final = 30.0


@dataclass(frozen=True)
class Holds:
    """Holds of one loop: how many took at most each bound (the last one is infinite), and the longest.

    `by_work` has the longest of each kind of work that broke the rule of 10 ms.
    """

    up_to: Mapping[float, int]
    longest_ms: float = 0.0
    by_work: Mapping[str, float] = field(default_factory=dict)
    # Of those that broke the rule: for how long the broker worked meanwhile.
    own: "Holds | None" = None

    @classmethod
    def read(cls, page: str) -> "Holds":
        """Return what a metrics page says; nothing if the broker does not measure it."""
        up_to, by_work = _read(page, OWN_HISTOGRAM, LONGEST_OWN_BY_WORK)
        own = cls(up_to, max(by_work.values(), default=0.0), by_work)
        up_to, by_work = _read(page, HISTOGRAM, LONGEST_BY_WORK)
        longest_ms = max(
            (1_000 * float(line.split()[1]) for line in page.splitlines() if line.startswith(f"{LONGEST} ")),
            default=0.0,
        )
        return cls(up_to, longest_ms, by_work, own)

    @property
    def count(self) -> int:
        """How many holds there were."""
        return max(self.up_to.values(), default=0)

    def since(self, before: "Holds") -> "Holds":
        """Return the holds after another look at the same broker; all of them if it has started again since."""
        if self.count < before.count:
            return self
        up_to = {bound: count - before.up_to.get(bound, 0) for bound, count in self.up_to.items()}
        by_work = {work: held_ms for work, held_ms in self.by_work.items() if held_ms > before.by_work.get(work, 0.0)}
        own = self.own if self.own is None or before.own is None else self.own.since(before.own)
        if self.longest_ms > before.longest_ms:
            return Holds(up_to, self.longest_ms, by_work, own)
        # An older hold was longer; the newer ones are known up to the bound that all of them fit.
        return Holds(up_to, min(Holds(up_to).quantile_ms(1.0), before.longest_ms), by_work, own)

    def with_(self, other: "Holds") -> "Holds":
        """Return the holds of both."""
        bounds = self.up_to.keys() | other.up_to.keys()
        up_to = {bound: self.up_to.get(bound, 0) + other.up_to.get(bound, 0) for bound in sorted(bounds)}
        by_work = {
            work: max(self.by_work.get(work, 0.0), other.by_work.get(work, 0.0))
            for work in (*self.by_work, *other.by_work)
        }
        own = other.own if self.own is None else self.own if other.own is None else self.own.with_(other.own)
        return Holds(up_to, max(self.longest_ms, other.longest_ms), by_work, own)

    @property
    def note(self) -> str:
        """Return which work held a loop for longer than ever on its cluster, the longest first; empty if none did."""
        longest_first = sorted(self.by_work.items(), key=lambda item: -item[1])
        return ", ".join(f"{work} {held_ms:.0f} ms" for work, held_ms in longest_first)

    def quantile_ms(self, share: float) -> float:
        """Return the smallest bound that this share of the holds does not exceed, at most the longest hold."""
        if not self.count:
            return 0.0
        bound = next(bound for bound in sorted(self.up_to) if self.up_to[bound] >= share * self.count)
        return min(bound, self.longest_ms or bound)


def _read(page: str, histogram: str, longest_by_work: str) -> tuple[dict[float, int], dict[str, float]]:
    """Return how many holds of a kind took at most each bound, and the longest by what it did."""
    up_to: dict[float, int] = {}
    by_work: dict[str, float] = {}
    for line in page.splitlines():
        if line.startswith(f'{histogram}_bucket{{le="'):
            bound, count = line.partition('le="')[2].split('"} ')
            up_to[1_000 * float(bound)] = int(float(count))
        elif line.startswith(f'{longest_by_work}{{work="'):
            work, seconds = line.partition('work="')[2].rsplit('"} ', 1)
            by_work[work] = 1_000 * float(seconds)
    return up_to, by_work


def scrape(port: int) -> Holds:
    """Return the holds of the broker whose metrics are at `port`. Raises OSError."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
    try:
        connection.request("GET", "/metrics")
        response = connection.getresponse()
        page = response.read().decode()
    except http.client.HTTPException as error:
        raise OSError(f"no metrics at port {port}: {error!r}") from error
    finally:
        connection.close()
    if response.status != 200:
        raise OSError(f"no metrics at port {port}: {page.strip()}")
    return Holds.read(page)
