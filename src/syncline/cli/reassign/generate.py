"""`reassign generate`: where partitions could be, and what it would take to move them there."""

import json
from collections.abc import Sequence
from pathlib import Path
from random import SystemRandom
from typing import NamedTuple

from syncline.cli.reassign.execute import current_plan
from syncline.cli.screen import say_text, warn
from syncline.cli.target import counted
from syncline.cli.text_files import named, write_text
from syncline.local.layout import LocalClusterError
from syncline.model.ids import TopicPartition
from syncline.reassign import texts
from syncline.reassign.amounts import size_words
from syncline.reassign.cluster_state import ClusterState
from syncline.reassign.formulas import move_ratio
from syncline.reassign.generate import Placed, from_scratch, known_racks, with_fewest_bytes
from syncline.reassign.plan_file import Target, written


class Proposal(NamedTuple):
    """Two plans, and what it takes to get from one to the other."""

    current: list[Target]
    proposed: list[Target]
    new_replicas: int
    copied_bytes: int
    move_ratio: float


def propose(
    state: ClusterState,
    brokers: Sequence[int],
    topics: Sequence[str] | None,
    *,
    is_minimal: bool,
    ignores_racks: bool,
) -> Proposal:
    """Return a proposal for these topics (None: all but the brokers' own). Raises LocalClusterError or PlanError.

    Sizes are known only if the state was read with them.
    """
    known = {key.topic for key in state.partitions}
    # Topics of the brokers themselves move only if they are named, and else do not count: where the fifty partitions of
    # `__consumer_offsets` stay on three brokers, a fourth one would have to lead everything that clients use.
    of_clients = {name for name in known if not name.startswith("__")}
    wanted = of_clients if topics is None else set(topics)
    missing = next((name for name in topics or () if name not in known), None)
    if missing is not None:
        raise LocalClusterError(f"Topic {missing} not found.")
    _require_known(state, brokers)
    alive = [broker for broker in brokers if broker in state.brokers]
    racks = {} if ignores_racks else known_racks({each: state.brokers[each].rack for each in alive})
    placed = [Placed(key, partition.replicas, state.size_of(key)) for key, partition in state.partitions.items()]
    moved = [each for each in placed if each.key.topic in wanted]
    if is_minimal:
        elsewhere = [each for each in placed if each.key.topic in of_clients - wanted]
        proposed = with_fewest_bytes(moved, alive, racks, elsewhere=elsewhere)
    else:
        rng = SystemRandom()
        start, shift = rng.randrange(max(len(alive), 1)), rng.randrange(max(len(alive), 1))
        proposed = from_scratch(moved, alive, racks, start=start, shift=shift)
    created: dict[TopicPartition, int] = {
        each.key: len(set(each.replicas) - set(state.partitions[each.key].replicas)) for each in proposed
    }
    return Proposal(
        current_plan(state, [each.key for each in moved]),
        list(proposed),
        sum(created.values()),
        sum(count * state.size_of(key) for key, count in created.items()),
        move_ratio(sum(created.values()), sum(len(each.replicas) for each in placed)),
    )


def _require_known(state: ClusterState, brokers: Sequence[int]) -> None:
    """Raise `LocalClusterError` for a broker that does not exist; warn of those that are down, which get no replica."""
    known = state.known_brokers()
    unknown = next((broker for broker in brokers if broker not in known), None)
    if unknown is not None:
        there = ",".join(map(str, known))
        raise LocalClusterError(f"Unknown broker id {unknown} in --broker-list: the cluster has {there}.")
    for broker in brokers:
        if broker not in state.brokers:
            warn(f"broker {broker} is down, so the proposal leaves it out")


def print_proposal(proposal: Proposal, output: Path | None, *, is_minimal: bool, as_json: bool) -> None:
    """Print both plans, and what it costs if that was the point; write the proposed one to a file if there is one."""
    current, proposed = written(proposal.current), written(proposal.proposed)
    if output is not None:
        write_text(output, f"{proposed}\n")
    if as_json:
        plans = {"current": json.loads(current), "proposed": json.loads(proposed)}
        copied_bytes = proposal.copied_bytes if is_minimal else None
        print(json.dumps({**plans, "move_ratio": proposal.move_ratio, "copied_bytes": copied_bytes}))
        return
    say_text(texts.proposal(current, proposed))
    if is_minimal:
        replicas = counted(proposal.new_replicas, "new replica")
        print(f"\nMoveRatio {proposal.move_ratio:.3f}: {replicas}, {size_words(proposal.copied_bytes)} to copy")
    if output is not None:
        print(f"\nThe proposed plan is in {named(output)}.")
