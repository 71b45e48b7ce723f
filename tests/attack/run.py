"""Playing cases one after the other, each on a cluster that the one before has not harmed."""

import resource
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tests.attack.case import Case
from tests.attack.children import Attacker, ChildLost
from tests.attack.ground import Ground
from tests.attack.holds import Holds
from tests.attack.ledger import Ledger
from tests.attack.stream import Outcome
from tests.attack.verdict import Figures, Limits, not_rested, row
from tests.attack.watch import KILL_BYTES

# A case lasts at least so long: fewer acknowledgements say little.
CASE_S: Final = 1.0
# For the neighbour's last records to be acknowledged.
SETTLE_S: Final = 20.0
# Before the memory of a new cluster counts as its start.
STEADY_S: Final = 3.0
# Descriptors besides those of connections.
SPARE_DESCRIPTORS: Final = 200


@dataclass
class Result:
    """All that was found."""

    figures: list[Figures] = field(default_factory=list)
    # What was broken, by case; cases that kept to the limits are left out.
    broken: dict[str, list[str]] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    tracebacks: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Played:
    """A case that was played: when it began, what came of it in words, and which answers were wrong."""

    began_s: float
    note: str
    findings: Sequence[str] = ()
    # How long each broker's loop had waited for a processor until then.
    waits_ms: Mapping[int, float] = field(default_factory=dict)


def raise_descriptor_limit() -> int:
    """Allow this process and its children as many descriptors as the system lets them; return how many."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


class Run:
    """One run. `say` gets each line of the table as soon as it is known."""

    def __init__(self, limits: Limits, say: Callable[[str], object], *, short: bool) -> None:
        self.result = Result()
        self._limits = limits
        self._say = say
        self._short = short
        self._attacker = Attacker()
        self._descriptors = raise_descriptor_limit()
        self._ground: Ground | None = None
        self._holds: dict[int, Holds] = {}
        # Of all clusters, from the first attack on each to its end.
        self._throughout = Figures("throughout", [], Holds({}), {})

    def close(self) -> None:
        """End all processes."""
        self._attacker.close()
        if self._ground is not None:
            self._ground.close()
            self._ground = None

    def play(self, case: Case) -> None:
        """Play one case and judge it. A cluster that it harmed is replaced: the next case starts from a sound one."""
        ground = self._ready_ground()
        before = ground.ledger()
        played = self._played(ground, case)
        if played is not None:
            figures = self._measured(ground, case.name, [played], before)
            self._judge(figures)
            if figures.harm or max(figures.peaks.values()) > self._limits.resident_bytes:
                self.finish()

    def play_together(self, cases: Sequence[Case]) -> None:
        """Play cases one right after the other, and judge them as one: a look at the brokers takes a second."""
        ground = self._ready_ground()
        before = ground.ledger()
        played = [each for case in cases if (each := self._played(ground, case)) is not None]
        self._judge(self._measured(ground, "all", played, before))

    def rest(self, seconds: float) -> None:
        """Delete what the cases have left, leave the brokers alone, then compare their memory with the start."""
        ground = self._ready_ground()
        ground.tidy()
        self._peaks(ground)
        before, began_s, waits_ms = ground.ledger(), time.monotonic(), ground.watch.waits_ms()
        time.sleep(seconds)
        played = [Played(began_s, "", waits_ms=waits_ms)]
        figures = self._measured(ground, f"rest of {seconds:.0f} s", played, before)
        figures.harm = [*figures.harm, *not_rested(ground.start_bytes, ground.watch.now(), self._limits)]
        self._judge(figures)

    def finish(self) -> None:
        """Read back everything that was acknowledged, and end the cluster."""
        ground = self._ground
        if ground is None:
            return
        try:
            verdict = ground.neighbour.finish()
        except ChildLost as error:
            verdict = f"nothing could be read back: {error}"
        if verdict:
            last = self.result.figures[-1].name if self.result.figures else "start"
            self.result.broken.setdefault(last, []).append(verdict)
            self._say(f"BROKEN: {verdict}")
        whole = self._throughout
        whole.acks_ms = [*whole.acks_ms, *ground.neighbour.acks_ms(ground.began_s, time.monotonic())]
        whole.late_ms = max(whole.late_ms, ground.neighbour.late_ms(ground.began_s, time.monotonic()))
        self.result.tracebacks += ground.ledger().tracebacks
        ground.close()
        self._ground = None

    def judge_throughout(self) -> None:
        """Judge everything together, also what lay between the cases."""
        self._judge(self._throughout)

    def _ready_ground(self) -> Ground:
        if self._ground is None:
            self._ground = Ground(self._attacker, short=self._short, settles_s=0.0 if self._short else STEADY_S)
            self._holds = self._ground.first_holds
        return self._ground

    def _played(self, ground: Ground, case: Case) -> Played | None:
        """Play a case and return what came of it, or None if it had to be skipped."""
        size = case.short if self._short else case.whole
        assert size is not None, f"{case.name} has no short form"
        if size.connections + SPARE_DESCRIPTORS > self._descriptors:
            self.result.skipped[case.name] = f"{size.connections} connections, {self._descriptors} descriptors allowed"
            return None
        began_s, waits_ms = time.monotonic(), ground.watch.waits_ms()
        try:
            self._attacker.prepare(case.name, short=self._short, scene=ground.scene())
            if not self._short:
                self._peaks(ground)
                began_s, waits_ms = time.monotonic(), ground.watch.waits_ms()
            reply = self._attacker.attack(size.limit_s)
        except ChildLost as error:
            self._attacker.close()
            return Played(began_s, f"{case.name}: {error}", waits_ms=waits_ms)
        outcome = Outcome(**reply["outcome"])
        note = f"{case.name}: {outcome}; {reply['cpu_s']:.1f} s of the attacker's processor time"
        return Played(began_s, note, outcome.findings, waits_ms)

    def _peaks(self, ground: Ground) -> dict[int, int]:
        """Return the brokers' peaks since the last look, and remember the highest."""
        peaks, whole = ground.watch.take_peaks(), self._throughout
        whole.peaks = {broker: max(peak, whole.peaks.get(broker, 0)) for broker, peak in peaks.items()}
        return peaks

    def _measured(self, ground: Ground, name: str, played: Sequence[Played], before: Ledger) -> Figures:
        """Wait until the neighbour is served again, and return what it and the brokers experienced."""
        neighbour, began_s = ground.neighbour, min(each.began_s for each in played)
        time.sleep(max(0.0, began_s + CASE_S - time.monotonic()))
        ended_s = time.monotonic()
        harm = [finding for each in played for finding in each.findings]
        waits_ms = ground.watch.waits_ms()
        if not neighbour.settle(ended_s, SETTLE_S):
            harm.append(f"records unacknowledged for {SETTLE_S:.0f} s")
        holds = self._new_holds(ground)
        waited_ms = max(waits_ms[broker] - played[0].waits_ms.get(broker, 0.0) for broker in waits_ms)
        self._throughout.waited_ms += waited_ms
        harm += neighbour.trouble[:2]
        harm += [f"broker {broker} took {KILL_BYTES / 1e6:.0f} MB and was ended" for broker in ground.watch.killed]
        return Figures(
            name,
            neighbour.acks_ms(began_s, ended_s),
            holds,
            self._peaks(ground),
            ground.watch.now(),
            neighbour.late_ms(began_s, ended_s),
            [*harm, *ground.ledger().harm_since(before)],
            "\n".join(
                [each.note for each in played] + [f"held for longer than ever by {holds.note}"] * bool(holds.note)
            ),
            waited_ms,
        )

    def _new_holds(self, ground: Ground) -> Holds:
        """Return the holds of all brokers since the last look."""
        now = ground.holds()
        whole = Holds({})
        for broker, holds in now.items():
            whole = whole.with_(holds.since(self._holds.get(broker, Holds({}))))
        self._holds = now
        self._throughout.holds = self._throughout.holds.with_(whole)
        return whole

    def _judge(self, figures: Figures) -> None:
        broken = figures.broken(self._limits)
        self.result.figures.append(figures)
        if broken:
            self.result.broken[figures.name] = broken
        self._say(row(figures, broken))
