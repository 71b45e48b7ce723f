"""`reassign execute`: everything is checked before anything changes, and shown instead with --dry-run."""

import json
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple, Self

from syncline.cli.direct import Direct
from syncline.cli.reassign.cluster_reading import read_cluster, require_brokers, require_partitions
from syncline.cli.reassign.move_requests import TWO_GOALS, Goal, Throttle, change, move_log_dirs, start
from syncline.cli.reassign.throttle_configs import set_rates
from syncline.cli.screen import say_text
from syncline.local.layout import LocalClusterError
from syncline.model.ids import NONE, TopicPartition
from syncline.reassign import texts
from syncline.reassign.amounts import parse_bytes, parse_capacity, parse_percent, parse_span_s, rate_words, size_words
from syncline.reassign.cluster_state import ClusterState
from syncline.reassign.formulas import loads
from syncline.reassign.log_dir_states import Place, wishes
from syncline.reassign.move_map import brokers_of, follower_lists, leader_lists, movements
from syncline.reassign.plan_file import Target, parse_plan, written
from syncline.reassign.progress import changed_factors, planned, without_room
from syncline.reassign.throttle_state import LOG_DIRS_RATE

# Of the name of a move, which is the file's.
NAME_LENGTH_MAX: Final = 250
NONE_TEXT: Final = str(NONE)
NO_THROTTLE: Final = "none"
MOVES_NOTHING: Final = (
    "There is nothing to move: each partition already has the replicas of the plan, in the same order."
)


class Wishes(NamedTuple):
    """What a user asked for, read from the options."""

    targets: list[Target]
    name: str
    throttle_bytes_per_s: int
    log_dir_bytes_per_s: int
    deadline_s: int | None
    impact_percent: int | None
    link_bytes_per_s: int
    is_additional: bool
    allows_factor_change: bool
    ignores_space: bool
    timeout_ms: int
    # The throttle that the moves have is taken from them.
    removes_throttle: bool = False

    @classmethod
    def of(
        cls,
        text: str,
        *,
        name: str,
        throttle: str,
        log_dir_throttle: str,
        deadline: str | None,
        impact: str | None,
        link: str,
        is_additional: bool,
        allows_factor_change: bool,
        ignores_space: bool,
        timeout_ms: int,
    ) -> Self:
        """Return the wishes; raises PlanError or LocalClusterError for those that nothing can fulfil."""
        if deadline is not None and impact is not None:
            raise LocalClusterError(TWO_GOALS)
        return cls(
            parse_plan(text, name),
            name,
            NONE if throttle.strip() == NO_THROTTLE else _rate(throttle, "--throttle"),
            _rate(log_dir_throttle, "--replica-alter-log-dirs-throttle"),
            None if deadline is None else parse_span_s(deadline, "--deadline"),
            None if impact is None else parse_percent(impact, "--max-client-impact"),
            parse_capacity(link, "--link-capacity"),
            is_additional,
            allows_factor_change,
            ignores_space,
            timeout_ms,
            removes_throttle=throttle.strip() == NO_THROTTLE,
        )

    @property
    def is_controlled(self) -> bool:
        """Return whether the command stays and adapts the rate."""
        return self.deadline_s is not None or self.impact_percent is not None

    @property
    def goal(self) -> Goal:
        """Return what the rate is adapted to; the deadline counts from now."""
        deadline_ms = NONE if self.deadline_s is None else time.time_ns() // 1_000_000 + self.deadline_s * 1000
        return Goal(deadline_ms, self.impact_percent or NONE, self.link_bytes_per_s)

    @property
    def keys(self) -> list[TopicPartition]:
        """Return the partitions, sorted."""
        return sorted(target.key for target in self.targets)


def run(cluster: Direct, wished: Wishes, bootstrap: str, *, is_dry: bool, as_json: bool) -> int:
    """Check, start and perhaps steer a move; return the exit code. Raises LocalClusterError."""
    state = read_cluster(cluster, {key.topic for key in wished.keys}, with_sizes=True)
    if wished.removes_throttle and not state.owns_throttles:
        raise LocalClusterError(
            "Apache Kafka's moves have no throttle of their own: `syncline throttle clear` removes rates and lists."
        )
    directories = _checked(state, wished)
    if is_dry:
        _show_plan(state, wished, directories, as_json=as_json)
        return 0
    if not wished.is_controlled or _moves_nothing(state, wished, directories):
        return _perform(cluster, state, wished, directories, Throttle(wished.throttle_bytes_per_s), as_json=as_json)[0]
    from syncline.cli.reassign.steer import Steering

    with Steering(cluster, bootstrap, as_json=as_json) as steering:
        throttle = steering.prepared(state, wished.targets, wished.goal, wished.throttle_bytes_per_s)
        code, move_id = _perform(cluster, state, wished, directories, throttle, as_json=as_json)
        return code or steering.run(move_id, wished.targets)


def _perform(
    cluster: Direct,
    state: ClusterState,
    wished: Wishes,
    directories: dict[Place, str],
    throttle: Throttle,
    *,
    as_json: bool,
) -> tuple[int, str]:
    """Start what was checked; return the exit code and the id of the move, if it has one."""
    current = written(current_plan(state, wished.keys))
    if not as_json:
        say_text([*texts.rollback(current)])
        if not state.owns_throttles and throttle.bytes_per_s != NONE:
            say_text([texts.MUST_VERIFY])
    if wished.log_dir_bytes_per_s != NONE and directories:
        brokers = sorted({place.broker for place in directories})
        set_rates(cluster, state, brokers, {LOG_DIRS_RATE: wished.log_dir_bytes_per_s})
    outcome = start(
        cluster,
        state,
        wished.targets,
        throttle,
        name=wished.name[:NAME_LENGTH_MAX],
        allow_factor=wished.allows_factor_change,
    )
    started = [key for key in wished.keys if key not in outcome.refused]
    if outcome.refused:
        _report_refusals(outcome.refused, started, as_json=as_json, is_all_or_nothing=state.owns_throttles)
        return 1, ""
    if throttle.bytes_per_s == NONE:
        throttle = _repeated(cluster, state, outcome.move_id, is_removed=wished.removes_throttle)
    if outcome.without_rate:
        print(texts.without_rate(outcome.without_rate), file=sys.stderr)
    if as_json:
        print(
            json.dumps(
                {
                    "started": list(map(str, started)),
                    "move": outcome.move_id or None,
                    "throttle_bytes_per_s": _known(throttle.bytes_per_s),
                    "rollback": json.loads(current),
                    "moves_nothing": _moves_nothing(state, wished, directories),
                }
            ),
            flush=True,
        )
    else:
        if throttle.bytes_per_s != NONE:
            say_text([texts.throttle_set(throttle.bytes_per_s)])
        if wished.log_dir_bytes_per_s != NONE and directories:
            say_text([texts.log_dir_throttle_set(wished.log_dir_bytes_per_s)])
        say_text([texts.started(started)])
        if _moves_nothing(state, wished, directories):
            say_text([MOVES_NOTHING])
    return _start_log_dirs(cluster, directories, wished.timeout_ms, as_json=as_json), outcome.move_id


def _moves_nothing(state: ClusterState, wished: Wishes, directories: dict[Place, str]) -> bool:
    """Return whether each replica is where the plan wants it, so that nothing moves."""
    return not directories and all(_is_there(state, target) for target in wished.targets)


def _is_there(state: ClusterState, target: Target) -> bool:
    return target.key not in state.running and state.partitions[target.key].replicas == target.replicas


def _repeated(cluster: Direct, state: ClusterState, move_id: str, *, is_removed: bool) -> Throttle:
    """Return the throttle of a move that was requested without one: that of before if it ran already."""
    known = state.moves.get(move_id)
    if known is None:
        return Throttle()
    if is_removed:
        change(cluster, state, move_id, Throttle())
        return Throttle()
    return Throttle(known.throttle_bytes_per_s)


def _rate(text: str, option: str) -> int:
    return NONE if text.strip() == NONE_TEXT else parse_bytes(text, option)


def _checked(state: ClusterState, wished: Wishes) -> dict[Place, str]:
    """Raise `LocalClusterError` for what a move must not do; return the moves between directories."""
    if state.running and not wished.is_additional:
        raise LocalClusterError(texts.CANNOT_EXECUTE)
    require_brokers(state, (broker for target in wished.targets for broker in target.replicas))
    require_partitions(state, wished.keys)
    factors = changed_factors(state, wished.targets)
    if factors and not wished.allows_factor_change:
        raise LocalClusterError(
            f"the plan changes the number of replicas of {', '.join(factors)}. If you want that, add "
            "--allow-replication-factor-change."
        )
    moving = planned(state, wished.targets, {})
    full = [] if wished.ignores_space else without_room(state, moving)
    if full:
        raise LocalClusterError(f"{'; '.join(full)}. Move less at once, or add --ignore-disk-space.")
    named = wishes(wished.targets)
    if state.owns_throttles:
        for place, path in named.items():
            if path not in state.brokers[place.broker].directories:
                raise LocalClusterError(
                    f"replica {place.key}-{place.broker} cannot be moved to {path}: a Syncline broker has one "
                    'log directory. Use "any" in log_dirs.'
                )
        return {}
    return {
        place: path
        for place, path in named.items()
        if place not in state.log_dirs or state.log_dirs[place].current != path
    }


def current_plan(state: ClusterState, keys: Iterable[TopicPartition]) -> list[Target]:
    """Return where partitions are now, with their directories, as far as they are known."""
    return [
        Target(key, replicas, tuple(_directory(state, Place(key, broker)) for broker in replicas))
        for key in keys
        for replicas in [state.partitions[key].replicas]
    ]


def _directory(state: ClusterState, place: Place) -> str:
    # A broker of Syncline has one directory, so naming it would only make a plan that fits no other cluster.
    copies = state.log_dirs.get(place)
    return copies.current if copies is not None and copies.current and not state.owns_throttles else "any"


def _show_plan(state: ClusterState, wished: Wishes, directories: dict[Place, str], *, as_json: bool) -> None:
    """Print all that an execution would change, and how much it would copy."""
    moving = planned(state, wished.targets, {})
    parts = loads(moving, counts_in_sync=False)
    listed = movements(state.running, wished.targets, state.replicas())
    rows: list[dict[str, Any]] = [
        {
            "partition": str(target.key),
            "from": list(state.partitions[target.key].replicas),
            "to": list(target.replicas),
            "copied_bytes": sum(each.lacking_bytes.values()),
        }
        for target, each in zip(wished.targets, moving, strict=True)
    ]
    is_limited = wished.throttle_bytes_per_s != NONE and not state.owns_throttles
    configs: dict[str, Any] = {}
    if is_limited:
        configs = {
            "leader.replication.throttled.replicas": leader_lists(listed),
            "follower.replication.throttled.replicas": follower_lists(listed),
            "rates_on_brokers": [broker for broker in brokers_of(listed) if broker in state.brokers],
        }
    if as_json:
        traffic = [
            {"broker": part.broker, "role": part.role.value, "bytes": load.copy_bytes} for part, load in parts.items()
        ]
        print(
            json.dumps(
                {
                    "partitions": rows,
                    "moves_nothing": _moves_nothing(state, wished, directories),
                    "brokers": traffic,
                    "throttle_bytes_per_s": None
                    if wished.throttle_bytes_per_s == NONE
                    else wished.throttle_bytes_per_s,
                    "owned_by_the_move": state.owns_throttles,
                    "configs": configs,
                    "log_dirs": {f"{place.key}-{place.broker}": path for place, path in directories.items()},
                }
            )
        )
        return
    if _moves_nothing(state, wished, directories):
        print(MOVES_NOTHING)
        return
    print("Nothing was changed. Without --dry-run, the command would change:")
    for row, target in zip(rows, wished.targets, strict=True):
        if _is_there(state, target):
            print(f"  {row['partition']}: {_ids(row['to'])}, unchanged")
            continue
        copied = f", {size_words(row['copied_bytes'])} to copy" if row["copied_bytes"] else ""
        print(f"  {row['partition']}: {_ids(row['from'])} -> {_ids(row['to'])}{copied}")
    for place, path in directories.items():
        print(f"  replica {place.key}-{place.broker} to directory {path}")
    for part, load in parts.items():
        print(f"  broker {part.broker} {part.role}: {size_words(load.copy_bytes)}")
    if wished.throttle_bytes_per_s != NONE and state.owns_throttles:
        print(f"  at most {rate_words(wished.throttle_bytes_per_s)} at each broker while the move runs")
    if wished.is_controlled:
        print("  the rate, which the command would adapt every second")
    for name, value in configs.items():
        for topic, items in value.items() if isinstance(value, dict) else ():
            print(f"  topic {topic}: {name}={items}")
    if is_limited:
        running = [broker for broker in brokers_of(listed) if broker in state.brokers]
        print(f"  brokers {_ids(running)}: rates of {wished.throttle_bytes_per_s} B/s to send and to receive")


def _report_refusals(
    refused: dict[TopicPartition, str], started: Sequence[TopicPartition], *, as_json: bool, is_all_or_nothing: bool
) -> None:
    going = [] if is_all_or_nothing else list(map(str, started))
    if as_json:
        print(json.dumps({"refused": {str(key): text for key, text in sorted(refused.items())}, "started": going}))
        return
    say_text(texts.refusals("Error reassigning partition(s):", refused))
    if going:
        print(f"These moves started anyway: {','.join(going)}.")


def _start_log_dirs(cluster: Direct, directories: dict[Place, str], timeout_ms: int, *, as_json: bool) -> int:
    if not directories:
        return 0
    started, late = move_log_dirs(cluster, directories, timeout_ms)
    if not as_json:
        for path, broker in sorted({(directories[place], place.broker) for place in started}):
            here = [place.key for place in started if (directories[place], place.broker) == (path, broker)]
            say_text([texts.log_dirs_started(path, broker, here)])
        if late:
            say_text([texts.log_dirs_late(late)])
    return 1 if late else 0


def _ids(brokers: Sequence[int]) -> str:
    return ",".join(map(str, brokers))


def _known(number: int) -> int | None:
    return None if number == NONE else number
