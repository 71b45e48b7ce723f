"""A move whose rate a command adapts: look, decide, change the rate, until it is over.

Deciding is pure (`syncline.reassign.control`, `syncline.reassign.impact`). What a command needs to go on after it was
killed is in the cluster: the partitions, the move and its goal. A cluster that does not answer for a while, as while
its controller changes, does not end the command.
"""

import json
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Final, Self

from syncline.cli.direct import Direct
from syncline.cli.reassign.client_probe import Probe
from syncline.cli.reassign.cluster_reading import read_cluster, read_ended
from syncline.cli.reassign.goals import Adapts, ToClients, ToDeadline, fact_words, search_from, wait_words, wall_ms
from syncline.cli.reassign.kept_throttle import kept_throttle
from syncline.cli.reassign.move_requests import Goal, Throttle, change, release
from syncline.cli.reassign.throttle_configs import read_throttles
from syncline.local.layout import LocalClusterError
from syncline.model.ids import NONE, TopicPartition
from syncline.reassign.amounts import at_rate, size_words, span_words
from syncline.reassign.cluster_state import ClusterState, MoveState
from syncline.reassign.control import RESERVE_MS, Range
from syncline.reassign.eta import Ends
from syncline.reassign.feasibility import Link, judge, reasons
from syncline.reassign.formulas import Load, Part, loads
from syncline.reassign.growth import Growth
from syncline.reassign.move_map import Movement, movements
from syncline.reassign.plan_file import Target
from syncline.reassign.progress import Row, planned, remaining, rows
from syncline.reassign.throttle_state import Throttles

PERIOD_S: Final = 1.0
# A move with a short deadline is looked at so many times nevertheless, and near its end more often.
LOOKS: Final = 20
PERIOD_S_MIN: Final = 0.1
# What clients feel is counted every second, and the cluster is looked at less often: a look is felt as well. In
# between, what it has shown is taken to last.
LOOK_PERIOD_S: Final = 5.0
WARM_S: Final = 1.0
BASELINE_S: Final = 10.0
PATIENCE_S: Final = 60.0
# A rate that is this near to the present one is not worth a request.
NEAR: Final = 0.03
FLOOR_BYTES_PER_S: Final = 50_000
CEILING_BYTES_PER_S: Final = 1 << 50
SLOW_START_BYTES_PER_S: Final = 250_000
_RESUME: Final = "`syncline reassign resume` continues to adapt its rate."


class Steering:
    """One move under way, and what is known of it."""

    def __init__(self, cluster: Direct, bootstrap: str, *, as_json: bool) -> None:
        self._cluster = cluster
        self._bootstrap = bootstrap
        self._as_json = as_json
        self._open = ExitStack()
        self._goal = Goal()
        self._adapts: Adapts | None = None
        self._rate = NONE
        self._growth = Growth()
        self._ends = Ends()
        # The new replicas as they were seen last: those of partitions that are done are missing in a look.
        self._replicas: dict[tuple[TopicPartition, int], Row] = {}
        # What Apache Kafka limits for this move, and its limits of before.
        self._limited: dict[TopicPartition, Movement] = {}
        self._earlier = Throttles({}, {})
        # Brokers of Apache Kafka that were down when the others got the rate.
        self._without_rate: tuple[int, ...] = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def prepared(self, state: ClusterState, targets: Sequence[Target], goal: Goal, wished: int) -> Throttle:
        """Return the throttle to begin with, from a measurement of clients and of how fast partitions grow.

        Raises LocalClusterError if the goal cannot be reached, with the reason and what would make it possible.
        """
        self._goal = goal
        self._growth.seen(state)
        self._ends = Ends(is_steady=state.owns_throttles)
        if not state.owns_throttles:
            self._limited = movements(state.running, targets, state.replicas())
            self._earlier = read_throttles(self._cluster, state, {key.topic for key in self._limited})
        if goal.deadline_ms == NONE:
            clients = self._measured_clients(state, wished if wished != NONE else SLOW_START_BYTES_PER_S)
            self._adapts, self._rate = clients, clients.rate
            return goal.throttle(self._rate)
        time.sleep(self._period_s)
        self._look({target.key.topic for target in targets})
        parts = loads(planned(state, targets, self._growth.rates), counts_in_sync=not state.owns_throttles)
        self._check_deadline(parts)
        self._adapts = ToDeadline(goal.deadline_ms, self._allowed)
        self._rate, _ = self._adapts.next_rate(parts, NONE)
        return goal.throttle(self._rate)

    def taken_over(self, state: ClusterState, move: MoveState, goal: Goal) -> None:
        """Go on with a move that another command began. Raises LocalClusterError."""
        self._goal = goal
        self._growth.seen(state)
        self._ends = Ends(is_steady=state.owns_throttles)
        self._rate = move.throttle_bytes_per_s
        if not state.owns_throttles:
            # The limits of before are forgotten with the command that was killed.
            self._limited = movements(state.running, [], state.replicas())
        if goal.deadline_ms != NONE:
            self._adapts = ToDeadline(goal.deadline_ms, self._allowed)
            return
        begin = self._rate if self._rate != NONE else SLOW_START_BYTES_PER_S
        with kept_throttle(self._cluster, state, move):
            # What clients feel without the move can only be measured while it hardly moves.
            self._change(state, move.move_id, FLOOR_BYTES_PER_S)
            self._adapts = self._measured_clients(state, min(begin, SLOW_START_BYTES_PER_S))

    def run(self, move_id: str, targets: Sequence[Target]) -> int:
        """Adapt the rate until the move is over; return the exit code."""
        topics = {target.key.topic for target in targets}
        keys = [target.key for target in targets]
        period_s = self._period_s
        begun_s = silent_s = time.monotonic()
        state: ClusterState | None = None
        try:
            while True:
                try:
                    if state is None or self._is_look_due(state.at_ms):
                        state = self._look(topics)
                    running = [key for key in keys if key in state.running and state.move_of.get(key, "") == move_id]
                    if not running:
                        return self._ended(targets, time.monotonic() - begun_s)
                    self._step(state, move_id, running)
                    silent_s = time.monotonic()
                except LocalClusterError as error:
                    if time.monotonic() - silent_s > PATIENCE_S:
                        raise
                    print(f"syncline: {error} Trying again.", file=sys.stderr)
                time.sleep(self._until_next_s(period_s))
        except KeyboardInterrupt:
            print(f"\nThe move continues {at_rate(self._rate)}. {_RESUME}", file=sys.stderr)
            raise
        except LocalClusterError as error:
            raise LocalClusterError(
                f"{error} If the move is still running, it runs {at_rate(self._rate)}. {_RESUME}"
            ) from None

    @property
    def _allowed(self) -> Range:
        link = self._goal.link_bytes_per_s
        return Range(FLOOR_BYTES_PER_S, CEILING_BYTES_PER_S if link == NONE else link)

    @property
    def _period_s(self) -> float:
        if self._goal.deadline_ms == NONE:
            return PERIOD_S
        return min(max((self._goal.deadline_ms - wall_ms()) / 1000 / LOOKS, PERIOD_S_MIN), PERIOD_S)

    def _is_look_due(self, last_ms: int) -> bool:
        """Return whether to look at the cluster again: where clients come first, not with each step."""
        if self._goal.deadline_ms != NONE:
            return True
        age_s = time.monotonic() - last_ms / 1000
        left_s = self._ends.left_s
        return age_s >= LOOK_PERIOD_S or (left_s is not None and left_s <= age_s + PERIOD_S)

    def _until_next_s(self, period_s: float) -> float:
        """Return how long to wait for the next look: so that the end is noticed when it comes."""
        left_s = self._ends.left_s
        if self._goal.deadline_ms == NONE or left_s is None:
            # What clients feel is counted over whole periods.
            return period_s
        return min(max(left_s, PERIOD_S_MIN), period_s)

    def _measured_clients(self, state: ClusterState, begin_bytes_per_s: int) -> ToClients:
        probe = self._open.enter_context(Probe(self._bootstrap, len(state.brokers)))
        # The first records wait for connections.
        time.sleep(WARM_S)
        search = search_from(probe, self._goal.impact_percent, self._allowed, begin_bytes_per_s, BASELINE_S)
        p99_ms, limit_ms = search.first.p99_ms, search.first.limit_ms
        self._say(
            {"p99_ms_before": round(p99_ms, 2), "p99_ms_max": round(limit_ms, 2)},
            f"clients wait {wait_words(p99_ms)} (p99) now, and may wait {wait_words(limit_ms)} during the move",
        )
        return ToClients(probe, search)

    def _check_deadline(self, parts: Mapping[Part, Load]) -> None:
        left_s = (self._goal.deadline_ms - RESERVE_MS - wall_ms()) / 1000
        if left_s <= 0:
            raise LocalClusterError(
                "the deadline leaves no time to copy anything: measuring takes up to a second before the "
                "move, and replicas need some time to join the ISR at its end. Give 3s or more."
            )
        link = self._goal.link_bytes_per_s
        links = {} if link == NONE else {part: Link(float(link)) for part in parts}
        verdict = judge(parts, links, time_s=left_s)
        if not verdict.is_feasible:
            raise LocalClusterError(" ".join(reasons(verdict, keep_percent=0, time_s=left_s)))

    def _look(self, topics: set[str]) -> ClusterState:
        """Return the cluster now, noting how fast its partitions grow."""
        state = read_cluster(self._cluster, topics, with_sizes=True)
        self._growth.seen(state)
        return state

    def _step(self, state: ClusterState, move_id: str, running: Sequence[TopicPartition]) -> None:
        assert self._adapts is not None, "the move was prepared or taken over"
        moving = rows(state, running)
        parts = remaining(state, moving, self._growth.rates, counts_in_sync=not state.owns_throttles)
        rate, facts = self._adapts.next_rate(parts, self._rate)
        has_returned = any(broker in state.brokers for broker in self._without_rate)
        if has_returned or abs(rate - self._rate) > NEAR * max(self._rate, 1):
            self._change(state, move_id, rate)
        self._ends = self._ends.seen(state.at_ms, parts, dict.fromkeys(parts, float(self._rate)))
        self._tell(moving, facts | self._adapts.judged(self._ends.left_s))

    def _tell(self, moving: Sequence[Row], facts: Mapping[str, Any]) -> None:
        self._replicas |= {(row.key, row.destination): row for row in moving}
        lacking = sum(max(row.total_bytes - row.done_bytes, 0) for row in moving)
        total = sum(row.total_bytes for row in self._replicas.values())
        done = total - lacking
        left_s = self._ends.left_s
        ends = "unknown" if left_s is None else span_words(left_s)
        share = 100 * done / total if total else 100.0
        notes = "".join(f", {each}" for each in fact_words(facts))
        self._say(
            {"done_bytes": done, "total_bytes": total, "rate_bytes_per_s": self._rate, "eta_s": left_s, **facts},
            f"{share:5.1f} % of {size_words(total)} {at_rate(self._rate)}, ends in {ends}{notes}",
        )

    def _change(self, state: ClusterState, move_id: str, rate: int) -> None:
        self._without_rate = change(self._cluster, state, move_id, self._goal.throttle(rate))
        self._rate = rate

    def _ended(self, targets: Sequence[Target], took_s: float) -> int:
        if self._limited:
            release(self._cluster, read_cluster(self._cluster), self._limited, self._earlier)
        replicas = read_ended(self._cluster, targets).replicas()
        others = [str(target.key) for target in targets if replicas.get(target.key) != target.replicas]
        if others:
            self._say(
                {"ended": "other", "partitions": others},
                f"the move ended, but {', '.join(others)} went elsewhere: the move was cancelled or another "
                "move took over",
            )
            return 1
        self._say({"ended": "complete", "took_s": round(took_s, 1)}, f"complete after {span_words(took_s)}")
        return 0

    def _say(self, facts: Mapping[str, Any], words: str) -> None:
        print(json.dumps(facts) if self._as_json else words, flush=True)
