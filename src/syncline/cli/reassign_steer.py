"""A move whose rate a command adapts: look, decide, change the rate, until it is over.

Deciding is pure (`syncline.reassign.control`). What a command needs to go on after it was killed is in the cluster:
the partitions, the move and its goal. A cluster that does not answer for a while, as while its controller changes,
does not end the command.
"""

import json
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Final, Self

from syncline.cli.cluster_reading import read_cluster
from syncline.cli.direct import Direct
from syncline.cli.move_requests import Goal, Throttle, change, release
from syncline.cli.throttle_configs import read_throttles
from syncline.local.layout import LocalClusterError
from syncline.model.ids import NONE, TopicPartition
from syncline.reassign.amounts import rate_words, size_words, span_words
from syncline.reassign.cluster_state import ClusterState, MoveState
from syncline.reassign.control import Impact, Pace, Range, for_deadline, impact_percent
from syncline.reassign.eta import Eta
from syncline.reassign.feasibility import Link, judge, reasons
from syncline.reassign.formulas import Load, Part, loads
from syncline.reassign.move_map import Movement, movements
from syncline.reassign.plan_file import Target
from syncline.reassign.progress import planned, remaining, rows, write_rates
from syncline.reassign.throttle_state import Throttles

PERIOD_S: Final = 1.0
# A move with a short deadline is looked at so many times nevertheless.
LOOKS: Final = 20
WARM_S: Final = 1.0
BASELINE_S: Final = 5.0
PATIENCE_S: Final = 60.0
# A rate that is this near to the present one is not worth a request.
NEAR: Final = 0.03
SMOOTHING: Final = 0.3
FLOOR_BYTES_PER_S: Final = 50_000
CEILING_BYTES_PER_S: Final = 1 << 50
SLOW_START_BYTES_PER_S: Final = 1_000_000


class Steering:
    """One move under way, and what is known of it."""

    def __init__(self, cluster: Direct, bootstrap: str, *, as_json: bool) -> None:
        self._cluster = cluster
        self._bootstrap = bootstrap
        self._as_json = as_json
        self._open = ExitStack()
        self._goal = Goal()
        self._probe: Any = None
        self._before_ms = 0.0
        self._search: Impact | None = None
        self._has_answers = True
        self._rate = NONE
        self._last: ClusterState | None = None
        self._write_rates: dict[TopicPartition, float] = {}
        # What Apache Kafka limits for this move, and its limits of before.
        self._limited: dict[TopicPartition, Movement] = {}
        self._earlier = Throttles({}, {})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def prepared(self, state: ClusterState, targets: Sequence[Target], goal: Goal, wished: int) -> Throttle:
        """Return the throttle to begin with, from a measurement of clients and of how fast partitions grow.

        Raises LocalClusterError if the goal cannot be reached, with the reason and what would make it possible.
        """
        self._goal = goal
        topics = {target.key.topic for target in targets}
        self._last = state
        if not state.owns_throttles:
            self._limited = movements(state.running, targets, state.replicas())
            self._earlier = read_throttles(self._cluster, state, {key.topic for key in self._limited})
        if goal.impact_percent != NONE:
            self._measure_clients(state)
        else:
            time.sleep(self._period_s)
        self._look(topics)
        parts = loads(planned(state, targets, self._write_rates), counts_in_sync=not state.owns_throttles)
        self._rate = wished
        if goal.deadline_ms != NONE:
            self._check_deadline(parts)
        return goal.throttle(self._begin(parts))

    def taken_over(self, state: ClusterState, move: MoveState, goal: Goal) -> None:
        """Go on with a move that another command began. Raises LocalClusterError."""
        self._goal = goal
        self._last = state
        self._rate = move.throttle_bytes_per_s
        if not state.owns_throttles:
            # The limits of before are forgotten with the command that was killed.
            self._limited = movements(state.running, [], state.replicas())
        if goal.impact_percent != NONE:
            # What clients feel without the move can only be measured while it hardly moves.
            self._change(state, move.move_id, FLOOR_BYTES_PER_S)
            self._measure_clients(state)
            self._search = Impact(goal.impact_percent, self._allowed, SLOW_START_BYTES_PER_S)

    def run(self, move_id: str, targets: Sequence[Target]) -> int:
        """Adapt the rate until the move is over; return the exit code."""
        from syncline.cli.up import interruptible

        interruptible()
        topics = {target.key.topic for target in targets}
        keys = [target.key for target in targets]
        period_s = self._period_s
        begun_s = silent_s = time.monotonic()
        eta = Eta()
        try:
            while True:
                try:
                    state = self._look(topics)
                    silent_s = time.monotonic()
                    running = [key for key in keys if key in state.running and state.move_of.get(key, "") == move_id]
                    if not running:
                        return self._ended(state, targets, time.monotonic() - begun_s)
                    eta = self._step(state, move_id, running, eta)
                except LocalClusterError as error:
                    if time.monotonic() - silent_s > PATIENCE_S:
                        raise
                    print(f"syncline: {error} Trying again.", file=sys.stderr)
                time.sleep(period_s)
        except KeyboardInterrupt:
            print(
                f"\nThe move goes on at {rate_words(self._rate)}. `syncline reassign resume` adapts its rate again.",
                file=sys.stderr,
            )
            return 130

    @property
    def _allowed(self) -> Range:
        link = self._goal.link_bytes_per_s
        return Range(FLOOR_BYTES_PER_S, CEILING_BYTES_PER_S if link == NONE else link)

    @property
    def _period_s(self) -> float:
        if self._goal.deadline_ms == NONE:
            return PERIOD_S
        return min(max((self._goal.deadline_ms - _wall_ms()) / 1000 / LOOKS, 0.05), PERIOD_S)

    def _measure_clients(self, state: ClusterState) -> None:
        from syncline.cli.client_probe import Probe

        self._probe = self._open.enter_context(Probe(self._bootstrap, len(state.brokers)))
        # The first records wait for connections.
        time.sleep(WARM_S)
        self._before_ms = self._probe.baseline_ms(BASELINE_S)
        self._say({"p99_ms_before": round(self._before_ms, 2)}, f"clients wait {self._before_ms:.1f} ms (p99) now")

    def _check_deadline(self, parts: Mapping[Part, Load]) -> None:
        left_s = max((self._goal.deadline_ms - _wall_ms()) / 1000, 0.001)
        link = self._goal.link_bytes_per_s
        links = {} if link == NONE else {part: Link(float(link)) for part in parts}
        verdict = judge(parts, links, time_s=left_s)
        if not verdict.is_feasible:
            raise LocalClusterError(" ".join(reasons(verdict, keep_percent=0, time_s=left_s)))

    def _begin(self, parts: Mapping[Part, Load]) -> int:
        if self._goal.deadline_ms != NONE:
            chosen = for_deadline(parts, now_ms=_wall_ms(), deadline_ms=self._goal.deadline_ms, allowed=self._allowed)
            self._rate = chosen.rate_bytes_per_s
        else:
            begin = self._rate if self._rate != NONE else SLOW_START_BYTES_PER_S
            self._search = Impact(self._goal.impact_percent, self._allowed, begin)
            self._rate = begin
        return self._rate

    def _look(self, topics: set[str]) -> ClusterState:
        """Return the cluster now; how fast its partitions grow is smoothed over some looks."""
        state = read_cluster(self._cluster, topics, with_sizes=True)
        if self._last is not None and state.at_ms > self._last.at_ms:
            for key, rate in write_rates(self._last, state).items():
                before = self._write_rates.get(key)
                self._write_rates[key] = rate if before is None else before + SMOOTHING * (rate - before)
        self._last = state
        return state

    def _step(self, state: ClusterState, move_id: str, running: Sequence[TopicPartition], eta: Eta) -> Eta:
        moving = rows(state, running)
        parts = remaining(state, moving, self._write_rates, counts_in_sync=not state.owns_throttles)
        facts: dict[str, Any] = {}
        if self._goal.deadline_ms != NONE:
            chosen = for_deadline(
                parts,
                now_ms=_wall_ms(),
                deadline_ms=self._goal.deadline_ms,
                allowed=self._allowed,
                rate_bytes_per_s=max(self._rate, 0),
            )
            rate = chosen.rate_bytes_per_s
            facts = {"deadline_in_s": round((self._goal.deadline_ms - _wall_ms()) / 1000, 1)}
            if chosen.pace is Pace.AT_HIGHEST:
                facts["needed_bytes_per_s"] = round(chosen.needed_bytes_per_s)
        else:
            rate, facts = self._searched()
        if abs(rate - self._rate) > NEAR * max(self._rate, 1):
            self._change(state, move_id, rate)
            needs = max(parts.values(), key=lambda load: load.copy_bytes, default=Load(0, 0.0))
            eta = eta.predicted(max(rate - needs.keep_up_bytes_per_s, 0.0))
        left = max((load.copy_bytes for load in parts.values()), default=0)
        eta = eta.seen(state.at_ms, left)
        done = sum(min(row.done_bytes, row.total_bytes) for row in moving)
        total = sum(row.total_bytes for row in moving)
        ends = "unknown" if eta.left_s is None else span_words(eta.left_s)
        share = 100 * done / total if total else 100.0
        notes = "".join(f", {name.replace('_', ' ')} {value}" for name, value in facts.items())
        self._say(
            {"done_bytes": done, "total_bytes": total, "rate_bytes_per_s": rate, "eta_s": eta.left_s, **facts},
            f"{share:5.1f} % of {size_words(total)} at {rate_words(rate)}, ends in {ends}{notes}",
        )
        return eta

    def _searched(self) -> tuple[int, dict[str, Any]]:
        assert self._search is not None, "a bound on clients has a search"
        p99_ms = self._probe.p99_ms()
        if p99_ms is None and self._has_answers:
            # The first time, too few records may only mean that little time has passed.
            self._has_answers = False
            return self._search.rate_bytes_per_s, {"impact_percent": None}
        self._has_answers = p99_ms is not None
        # No answer within a period is more than any bound.
        unanswered = 10.0 * self._goal.impact_percent
        percent = unanswered if p99_ms is None else impact_percent(p99_ms, self._before_ms)
        self._search = self._search.measured(percent)
        return self._search.rate_bytes_per_s, {"impact_percent": round(percent, 1)}

    def _change(self, state: ClusterState, move_id: str, rate: int) -> None:
        change(self._cluster, state, move_id, self._goal.throttle(rate))
        self._rate = rate

    def _ended(self, state: ClusterState, targets: Sequence[Target], took_s: float) -> int:
        if self._limited:
            release(self._cluster, read_cluster(self._cluster), self._limited, self._earlier)
        replicas = state.replicas()
        others = [str(target.key) for target in targets if replicas.get(target.key) != target.replicas]
        if others:
            self._say(
                {"ended": "other", "partitions": others},
                f"the move ended, and {', '.join(others)} went elsewhere: it was cancelled or another move took over",
            )
            return 1
        self._say({"ended": "complete", "took_s": round(took_s, 1)}, f"complete after {span_words(took_s)}")
        return 0

    def _say(self, facts: Mapping[str, Any], words: str) -> None:
        print(json.dumps(facts) if self._as_json else words, flush=True)


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000
