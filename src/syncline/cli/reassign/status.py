"""`reassign status` and `reassign resume`: what moves now, how far it is, what holds it back; and steering it again."""

import json
import math
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, NamedTuple

import typer

from syncline.cli.direct import Direct
from syncline.cli.reassign.cluster_reading import read_cluster
from syncline.cli.reassign.command import BootstrapServerOption, LinkOption
from syncline.cli.reassign.move_requests import TWO_GOALS, Goal
from syncline.cli.reassign.throttle_configs import read_throttles
from syncline.cli.screen import begin_again, say
from syncline.cli.target import SILENT_S, DataOption, JsonOption, bootstrap_of, sentences
from syncline.cli.up_options import DEFAULT_DIRECTORY
from syncline.local.layout import LocalClusterError
from syncline.model.ids import NONE, TopicPartition
from syncline.reassign import texts
from syncline.reassign.amounts import parse_capacity, parse_percent, parse_span_s, quoted, rate_words
from syncline.reassign.bars import is_known, lines_of, state_of, vague_parts
from syncline.reassign.cluster_state import ClusterState, MoveState
from syncline.reassign.doctor import BrokerView, Finding, PartView, diagnose, sentence, waiting_parts, without_chance
from syncline.reassign.eta import Ends
from syncline.reassign.formulas import Load, Part, Role
from syncline.reassign.growth import Growth
from syncline.reassign.plan_file import Target
from syncline.reassign.progress import (
    Row,
    broker_views,
    copies_of,
    idle_times,
    in_sync_rates,
    part_views,
    remaining,
    rows,
)
from syncline.reassign.throttle_state import Throttles, quota_of

# Copies come in batches of up to a megabyte: what is seen in less time is chance.
LOOK_S: Final = 1.0
WATCH_S: Final = 1.0
# Over how long rates are measured while somebody watches.
RATE_S: Final = 5.0


class _Look(NamedTuple):
    """What one look has shown."""

    state: ClusterState
    parts: dict[Part, Load]
    ends: Ends


class _Watch:
    """What several looks at a cluster have shown."""

    def __init__(self, cluster: Direct) -> None:
        self._cluster = cluster
        self._growth = Growth()
        # Those of the last `RATE_S`.
        self._looks: deque[_Look] = deque()
        self.rows: list[Row] = []
        self.views: dict[Part, PartView] = {}
        self.brokers: dict[int, BrokerView] = {}
        self.findings: list[Finding] = []
        self._waiting: set[Part] = set()

    @property
    def state(self) -> ClusterState:
        """Return the cluster as of the last look."""
        assert self._looks, "somebody looked"
        return self._looks[-1].state

    @property
    def ends(self) -> Ends:
        """Return when each part ends."""
        assert self._looks, "somebody looked"
        return self._looks[-1].ends

    def look(self) -> None:
        """Look once more, and compare with the looks before."""
        state = read_cluster(self._cluster, only_moving=True, with_sizes=True)
        topics = {key.topic for key in state.running}
        # Throttles may change while a move runs, and asking for them is cheap beside the sizes.
        throttles = read_throttles(self._cluster, state, topics) if topics else Throttles({}, {})
        self._growth.seen(state)
        growth = self._growth.rates
        self.rows = rows(state, state.running)
        parts = remaining(state, self.rows, growth, counts_in_sync=not state.owns_throttles)
        quotas = _quotas(state, throttles, self.rows)
        before = self._comparable(state, parts)
        span_s = 0.0 if before is None else (state.at_ms - before.state.at_ms) / 1000
        in_sync = {} if state.owns_throttles else in_sync_rates(state, self.rows, growth)
        earlier = None if before is None else before.parts
        views = part_views(earlier, parts, span_s, quotas, in_sync, idle_times(state))
        ends = self._looks[-1].ends if self._looks else Ends(is_steady=state.owns_throttles)
        self._looks.append(_Look(state, parts, ends.seen(state.at_ms, parts, quotas)))
        involved = {broker for row in self.rows for broker in (row.leader, row.destination) if broker != NONE}
        self.brokers = broker_views(state, involved)
        self.findings = diagnose(copies_of(self.rows), self.brokers, views, measured_s=span_s)
        self._waiting = waiting_parts(copies_of(self.rows), self.brokers)
        self.views = {
            part: view._replace(measured_bytes_per_s=None) if part in self._waiting else without_chance(view, span_s)
            for part, view in views.items()
        }

    def left_of_parts(self) -> dict[Part, float | None]:
        """Return the seconds left of each part; None also where it waits for a broker that is down or silent."""
        return {part: None if part in self._waiting else left for part, left in self.ends.left_of(self.views).items()}

    @property
    def left_s(self) -> float | None:
        """Return the seconds until all has ended; None if that is unknown."""
        return None if self._waiting else self.ends.left_s

    def _comparable(self, state: ClusterState, parts: Mapping[Part, Load]) -> _Look | None:
        """Return the first look of the last `RATE_S` that knew all that moves now, as what begins later is no loss."""
        while len(self._looks) > 1 and state.at_ms - self._looks[0].state.at_ms > RATE_S * 1000:
            self._looks.popleft()
        alike = (
            each
            for each in self._looks
            if state.running.keys() <= each.state.running.keys() and parts.keys() <= each.parts.keys()
        )
        return next(alike, self._looks[-1] if self._looks else None)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(short_help="Show the progress of moves, and what holds them back.")(status)
    app.command(short_help="Continue adapting the rate of a running move.")(resume)


def status(
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Refresh every second until nothing moves.")] = False,
    bootstrap: BootstrapServerOption = None,
    data: DataOption = DEFAULT_DIRECTORY,
    as_json: JsonOption = False,
) -> None:
    """Show how much of its data each new replica has, and each broker's rate against its throttle."""
    from syncline.cli.signals import interruptible

    interruptible()
    with Direct(bootstrap_of(bootstrap, data), SILENT_S) as cluster:
        seen = _Watch(cluster)
        began_s = time.monotonic()
        seen.look()
        # A look at thousands of partitions takes long, and the second one as long as the first: time enough to measure.
        # But a broker that is silent is waited for only once.
        took_s = time.monotonic() - began_s - cluster.wasted_s
        pause_s = LOOK_S if seen.state.running and took_s < LOOK_S else 0.0
        try:
            while True:
                time.sleep(WATCH_S if watch else pause_s)
                if seen.state.running:
                    seen.look()
                _show(seen, is_watching=watch, as_json=as_json)
                if not watch or not seen.state.running:
                    return
        except KeyboardInterrupt:
            return


def resume(
    move_id: Annotated[
        str | None, typer.Argument(metavar="[MOVE]", help="Id of the move, if several are running.")
    ] = None,
    deadline: Annotated[
        str | None, typer.Option("--deadline", metavar="TIME", help="New deadline, counted from now, such as 10m.")
    ] = None,
    impact: Annotated[
        str | None,
        typer.Option("--max-client-impact", metavar="PERCENT", help="New bound on how much longer clients wait."),
    ] = None,
    link: LinkOption = str(NONE),
    bootstrap: BootstrapServerOption = None,
    data: DataOption = DEFAULT_DIRECTORY,
    as_json: JsonOption = False,
) -> None:
    """Continue adapting the rate of a running move to its goal.

    A Syncline cluster remembers the goal of the move. Apache Kafka does not, so give the goal there.
    """
    from syncline.cli.reassign.steer import Steering
    from syncline.cli.signals import interrupts

    where = bootstrap_of(bootstrap, data)
    with interrupts(), sentences(), Direct(where) as cluster:
        state = read_cluster(cluster, with_sizes=True)
        move, keys = _chosen(state, move_id)
        goal = _goal(move, deadline, impact, link)
        targets = [Target(key, state.running[key].target) for key in keys]
        with Steering(cluster, where, as_json=as_json) as steering:
            steering.taken_over(state, move, goal)
            code = steering.run(move.move_id, targets)
    if code:
        raise typer.Exit(code)


def _chosen(state: ClusterState, move_id: str | None) -> tuple[MoveState, list[TopicPartition]]:
    if not state.running:
        raise LocalClusterError(texts.NOTHING_RUNS)
    if not state.owns_throttles:
        if move_id is not None:
            raise LocalClusterError(
                f"there is no move {quoted(move_id)}: Apache Kafka does not keep moves apart. Leave out the "
                "name to adapt the rate of all partitions that are moving."
            )
        return MoveState(""), sorted(state.running)
    if move_id is None:
        if len(state.moves) != 1:
            known = ", ".join(sorted(state.moves)) or "none"
            raise LocalClusterError(f"name the move to resume. Running moves: {known}.")
        move_id = next(iter(state.moves))
    if move_id not in state.moves:
        raise LocalClusterError(
            f"move {quoted(move_id)} is not running. Running moves: {', '.join(sorted(state.moves)) or 'none'}."
        )
    return state.moves[move_id], state.keys_of(move_id)


def _goal(move: MoveState, deadline: str | None, impact: str | None, link: str) -> Goal:
    if deadline is not None and impact is not None:
        raise LocalClusterError(TWO_GOALS)
    capacity = parse_capacity(link, "--link-capacity")
    if deadline is not None:
        now_ms = time.time_ns() // 1_000_000
        return Goal(now_ms + parse_span_s(deadline, "--deadline") * 1000, link_bytes_per_s=capacity)
    if impact is not None:
        return Goal(impact_percent=parse_percent(impact, "--max-client-impact"), link_bytes_per_s=capacity)
    if move.control == "deadline":
        return Goal(move.deadline_ms, link_bytes_per_s=capacity)
    if move.control == "impact":
        return Goal(impact_percent=move.impact_percent, link_bytes_per_s=capacity)
    name = f"move {move.move_id}" if move.move_id else "what moves"
    raise LocalClusterError(f"{name} has no goal to adapt its rate to: give --deadline or --max-client-impact.")


def _quotas(state: ClusterState, throttles: Throttles, moving: Sequence[Row]) -> dict[Part, float]:
    """Return the bound of each broker and role: the highest of its moving partitions', as one may be free."""
    found: dict[Part, float] = {}
    asked = set()
    for row in moving:
        # Replicas of one move that no list can name have the same bounds.
        key = row.key if throttles.lists.get(row.key.topic) else None
        alike = (row.leader, row.destination, state.move_of.get(row.key), key)
        if alike in asked:
            continue
        asked.add(alike)
        for broker, role in ((row.leader, Role.SENDING), (row.destination, Role.RECEIVING)):
            part = Part(broker, role)
            found[part] = max(found.get(part, 0.0), quota_of(state, throttles, row.key, broker, role))
    return found


def _show(seen: _Watch, *, is_watching: bool, as_json: bool) -> None:
    state = seen.state
    if as_json:
        print(json.dumps(_facts(seen)), flush=True)
        return
    if is_watching:
        begin_again()
    if not state.running:
        print(texts.NOTHING_RUNS, flush=True)
        return
    for move in state.moves.values():
        limit = "no throttle" if move.throttle_bytes_per_s == NONE else rate_words(move.throttle_bytes_per_s)
        goal = {"deadline": ", adapted to a deadline", "impact": f", adapted to clients ({move.impact_percent} %)"}
        say(f"move {move.move_id}{f' ({move.name})' if move.name else ''}: {limit}{goal.get(move.control, '')}")
    say(*lines_of(seen.rows, seen.brokers, seen.views, seen.left_of_parts()))
    say(*map(sentence, seen.findings))
    print(end="", flush=True)


def _facts(seen: _Watch) -> dict[str, Any]:
    state = seen.state
    ends = seen.left_of_parts()
    vague = vague_parts(seen.rows, seen.brokers)
    return {
        "replicas": [
            {
                "topic": row.key.topic,
                "partition": row.key.partition,
                "destination": row.destination,
                "done_bytes": row.done_bytes if is_known(row, seen.brokers) else None,
                "total_bytes": row.total_bytes if row.is_total_known else None,
                "state": state_of(row, seen.brokers),
                "move": state.move_of.get(row.key) or None,
            }
            for row in seen.rows
        ],
        "brokers": [
            {
                "broker": part.broker,
                "role": part.role.value,
                "remaining_bytes": None if part in vague else view.remaining_bytes,
                "measured_bytes_per_s": view.measured_bytes_per_s,
                "quota_bytes_per_s": None if math.isinf(view.quota_bytes_per_s) else view.quota_bytes_per_s,
                "eta_s": ends[part],
            }
            for part, view in seen.views.items()
        ],
        "moves": [move._asdict() for move in state.moves.values()],
        "eta_s": seen.left_s,
        "findings": [{"cause": finding.cause.value, "sentence": sentence(finding)} for finding in seen.findings],
    }
