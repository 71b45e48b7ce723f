"""The brokers of a running cluster, by number or by role.

A node is a number, "controller", "all", or "leader", "follower" or "followers" of a partition. When a fault begins,
the brokers are asked once which of them a role means.
"""

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from syncline.local.control import Control, ControlError, controls
from syncline.local.layout import Layout, LocalClusterError, state_of
from syncline.node.faults.table import NODES, Node

# Roles for a partition.
OF_A_PARTITION: Final = frozenset({"leader", "follower", "followers"})
# The time-out of requests whose answer is optional.
LOOK_TIMEOUT_S: Final = 2.0


class NamedBrokers:
    """The brokers of the cluster in a data directory, as of now; `place` is the partition that roles refer to."""

    def __init__(self, directory: Path, place: tuple[str | None, int | None] = (None, None)) -> None:
        running = Layout(directory).running()
        if running is None:
            raise ControlError(
                f"no cluster is running in {directory}. Start one with `syncline up`, or name its data directory."
            )
        self.pids = running.broker_pids
        # The control API of each broker that has a process.
        self.controls: dict[int, Control] = {
            broker: control
            for broker, control in controls(directory).items()
            if state_of(self.pids.get(broker, 0)) != "dead"
        }
        self._directory = directory
        self._place = place

    def pid(self, broker_id: int) -> int:
        """Return the process id of a broker; raises `LocalClusterError` if it has no process now."""
        if broker_id not in self.pids:
            known = ", ".join(map(str, sorted(self.pids)))
            raise LocalClusterError(f"there is no broker {broker_id} in {self._directory}: it has {known}.")
        pid = self.pids[broker_id]
        if state_of(pid) == "dead":
            raise LocalClusterError(f"broker {broker_id} (process {pid}) is not running now.")
        return pid

    def named(self, nodes: Sequence[Node]) -> list[int]:
        """Return the numbers of the named brokers, each once."""
        found: dict[int, None] = {}
        for node in nodes:
            for broker_id in self._named(str(node)):
                if broker_id not in self.controls:
                    self.pid(broker_id)
                    raise LocalClusterError(f"broker {broker_id} is starting; try again in a moment.")
                found[broker_id] = None
        return list(found)

    def links(self, sources: Sequence[Node], targets: Sequence[Node], *, one_way: bool) -> list[tuple[int, int]]:
        """Return each link as (from, to), both directions unless `one_way`."""
        links: dict[tuple[int, int], None] = {}
        ends = self.named(targets)
        for source in self.named(sources):
            for target in ends:
                if source != target:
                    links[source, target] = None
                    if not one_way:
                        links[target, source] = None
        if not links:
            raise LocalClusterError(f"both ends of the link are broker {ends[0]}: name two brokers.")
        return list(links)

    def ask_any(self, verb: str, **fields: Any) -> dict[str, Any]:
        """Return the first answer of any broker; raises the last refusal if none answers."""
        refusal: ControlError | None = None
        for control in self.controls.values():
            try:
                return control.call(verb, timeout_s=LOOK_TIMEOUT_S, **fields)
            except ControlError as error:
                refusal = error
        raise refusal or ControlError(f"no broker of the cluster in {self._directory} is running now.")

    def _named(self, name: str) -> Sequence[int]:
        if name.isdecimal():
            return (int(name),)
        if name == "all":
            return tuple(self.controls)
        if name == "controller":
            return (self._controller(),)
        if name in OF_A_PARTITION:
            topic, partition = self._place
            if topic is None or partition is None:
                raise LocalClusterError(f"{name!r} needs a partition: name one with --partition TOPIC:NUMBER.")
            record = self.ask_any("broker.partition", topic=topic, partition=partition)
            leader = int(record["leader"])
            followers = [int(replica) for replica in record["replicas"] if replica != leader]
            chosen = [leader] if name == "leader" else followers[:1] if name == "follower" else followers
            if not chosen or chosen == [-1]:
                raise LocalClusterError(f"{topic}:{partition} has no {name} now.")
            return chosen
        raise LocalClusterError(f"a node is {NODES}, not {name!r}.")

    def _controller(self) -> int:
        """Return the broker with the controller lease; if several believe that they hold it, the newest lease wins."""
        leases: dict[int, int] = {}
        for broker_id, control in self.controls.items():
            with contextlib.suppress(ControlError):
                answer = control.call("broker.describe", timeout_s=LOOK_TIMEOUT_S)
                if answer["is_controller"]:
                    leases[int(answer["lease_epoch"])] = broker_id
        if not leases:
            raise LocalClusterError("no broker is the controller now; try again in a moment.")
        return leases[max(leases)]
