"""The throttle of a move that a command changes for a while: it comes back if the command does not get further."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from syncline.cli.direct import Direct
from syncline.cli.reassign.move_requests import Throttle, change, put_back_rates
from syncline.cli.reassign.throttle_configs import read_throttles
from syncline.cli.signals import undisturbed
from syncline.local.layout import LocalClusterError
from syncline.model.ids import NONE
from syncline.reassign.amounts import at_rate
from syncline.reassign.cluster_state import ClusterState, MoveState
from syncline.reassign.move_map import brokers_of, movements
from syncline.reassign.throttle_state import FOLLOWER_RATE, LEADER_RATE, Throttles


@contextmanager
def kept_throttle(cluster: Direct, state: ClusterState, move: MoveState) -> Iterator[None]:
    """Put back the throttle and the goal of a move on any exception, and say at which rate the move goes on.

    In Apache Kafka it is the rates of all brokers that take part. Raises LocalClusterError if they cannot be read.
    """
    rates = Throttles({}, {}) if state.owns_throttles else read_throttles(cluster, state, ())
    try:
        yield
    except BaseException:
        with undisturbed():
            _put_back(cluster, state, move, rates)
        raise


def _put_back(cluster: Direct, state: ClusterState, move: MoveState, rates: Throttles) -> None:
    brokers = brokers_of(movements(state.running, [], state.replicas()))
    earlier = move.throttle_bytes_per_s if state.owns_throttles else _highest(rates, brokers)
    try:
        if state.owns_throttles:
            whole = Throttle(move.throttle_bytes_per_s, move.control, move.deadline_ms, move.impact_percent)
            change(cluster, state, move.move_id, whole)
        else:
            put_back_rates(cluster, state, brokers, rates)
    except LocalClusterError as error:
        print(
            f"syncline: cannot restore the previous rate ({error}). The move ran {at_rate(earlier)} before: "
            "set a rate with `syncline reassign execute --additional --throttle`, or use `syncline reassign "
            "resume`.",
            file=sys.stderr,
        )
    else:
        print(f"The move continues {at_rate(earlier)}, as before.", file=sys.stderr)


def _highest(rates: Throttles, brokers: list[int]) -> int:
    known = [
        each.bytes_per_s
        for broker in brokers
        for name, each in rates.rates.get(broker, {}).items()
        if name in (LEADER_RATE, FOLLOWER_RATE)
    ]
    return max(known, default=NONE)
