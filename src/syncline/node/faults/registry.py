"""The faults of one broker: which exist, and when they take effect.

A fault begins with `add`: the broker first journals it and then applies it, since the fault itself may prevent the
broker from writing to the journal. It ends after its duration, when its trigger can never fire again, or when it is
cleared; the broker journals that, too. An ended fault stays listed, with its counters, until it is cleared.

Faults exist only in memory: a restarted broker has none.
"""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from syncline.core.fetching.session_cache import SessionCache
from syncline.model.events import Fault
from syncline.model.ids import BrokerId
from syncline.node.clock import Clock
from syncline.node.control.verbs import ControlRefused
from syncline.node.faults.disk import FaultyDisk
from syncline.node.faults.links import LinkFaults
from syncline.node.faults.requests import RequestFaults
from syncline.node.faults.rules import CLEARED, SPENT, TIME_IS_OVER, Rule
from syncline.node.faults.table import Place
from syncline.node.links.links import Links
from syncline.node.metadata.cluster_view import ClusterView
from syncline.storage.disk import Disk

if TYPE_CHECKING:
    from syncline.node.observing.journal import Journal
    from syncline.node.serving.dispatch import Dispatcher
    from syncline.node.serving.request import Request

# The number of faults that a broker keeps, including ended ones.
LISTED_MAX: Final = 1_000


class Faults:
    """The faults of one broker."""

    def __init__(
        self,
        *,
        broker_id: BrokerId,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        cluster: ClusterView,
        sessions: SessionCache,
        disk: Disk,
        links: Links,
        dispatcher: "Dispatcher[Any]",
        journal: "Journal",
    ) -> None:
        self._broker_id = broker_id
        self._loop = loop
        self._clock = clock
        self._journal = journal
        self._dispatcher = dispatcher
        self._rules: dict[str, Rule] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._disk = disk if isinstance(disk, FaultyDisk) else None
        if self._disk is not None:
            self._disk.on_struck = self._struck
        self._dispatch = dispatcher.dispatch
        self._links = LinkFaults(broker_id, loop, links, dispatcher)
        self._requests = RequestFaults(loop, cluster, sessions, self._dispatch)
        self._requests.on_struck = self._struck

    async def add(self, fields: Mapping[str, Any]) -> Rule:
        """Begin a fault; raises `ControlRefused`."""
        rule = Rule(fields)
        if rule.id in self._rules:
            raise ControlRefused(f"fault {rule.id} already exists. Clear it first, or use another id.")
        if rule.place is Place.DISK and self._disk is None:
            raise ControlRefused("this broker's disk cannot be made faulty: it is not a disk of this machine.")
        if len(self._rules) >= LISTED_MAX:
            raise ControlRefused(f"there are already {LISTED_MAX} faults. Clear some first.")
        # Listed from here on, so that it cannot be added twice while it waits for the journal below.
        self._rules[rule.id] = rule
        self._note(rule, "begin", rule.note())
        if rule.is_journalled:
            try:
                await self._journal.flush()
            except BaseException:
                # The caller gets an error: the fault did not begin.
                self._rules.pop(rule.id, None)
                raise
        if not rule.is_active or self._rules.get(rule.id) is not rule:
            raise ControlRefused(f"fault {rule.id} was cleared before it began.")
        if rule.duration_ms is not None:
            rule.until_ms = self._clock.mono_ms() + rule.duration_ms
            self._timers[rule.id] = self._loop.call_later(rule.duration_ms / 1_000, self._end, rule, TIME_IS_OVER)
        self._apply()
        return rule

    def describe(self) -> list[dict[str, Any]]:
        """Return all rules as JSON, the newest last."""
        now_ms = self._clock.mono_ms()
        return [rule.describe(now_ms) for rule in self._rules.values()]

    def clear(self, fault_id: str | None) -> list[dict[str, Any]]:
        """End one fault, or all, and remove it; return it as JSON. Raises `ControlRefused`."""
        if fault_id is not None and fault_id not in self._rules:
            raise ControlRefused(f"broker {self._broker_id} has no fault {fault_id!r}.")
        ids = list(self._rules) if fault_id is None else [fault_id]
        rows = []
        for each in ids:
            rule = self._rules.pop(each)
            self._end(rule, CLEARED)
            rows.append(rule.describe(self._clock.mono_ms()))
        return rows

    def close(self) -> None:
        """End all faults: the broker is stopping."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._rules.clear()
        self._apply()
        self._requests.close()
        if self._disk is not None:
            self._disk.close()

    def _struck(self, rule: Rule) -> None:
        if rule.is_spent:
            self._end(rule, SPENT)

    def _end(self, rule: Rule, why: str) -> None:
        timer = self._timers.pop(rule.id, None)
        if timer is not None:
            timer.cancel()
        was_active = rule.is_active
        if was_active or why == CLEARED:
            rule.over = why
        if was_active:
            hits = rule.trigger.hits
            self._note(rule, "end", f"{rule.note()}: {why}, {hits} {'hit' if hits == 1 else 'hits'}")
            self._apply()
        if rule.is_lifted:
            self._requests.lift(rule)
            if self._disk is not None:
                self._disk.lift(rule)

    def _apply(self) -> None:
        """Apply the active rules to disk, links and requests."""
        active = [rule for rule in self._rules.values() if rule.is_active]
        if self._disk is not None:
            self._disk.set_rules([rule for rule in active if rule.place is Place.DISK])
        links = [rule for rule in active if rule.place is Place.LINK]
        requests = [rule for rule in active if rule.place is Place.REQUEST]
        self._links.set_rules(links)
        self._requests.set_rules(requests)
        dispatcher = self._dispatcher
        if links or requests:
            dispatcher.take_up = self._meet
        else:
            dispatcher.take_up = dispatcher.dispatch
        self.check_invariants()

    def check_invariants(self) -> None:
        """Assert that every rule with a duration has a timer, and that requests are intercepted only for a rule."""
        timed = {rule.id for rule in self._rules.values() if rule.is_active and rule.until_ms is not None}
        assert timed == self._timers.keys(), f"rules with a time {sorted(timed)}, with a timer {sorted(self._timers)}"
        is_met = any(rule.is_active and rule.place in {Place.LINK, Place.REQUEST} for rule in self._rules.values())
        assert is_met == (self._dispatcher.take_up == self._meet), f"requests are met by rules: {is_met}, wrongly"

    def _meet(self, request: "Request") -> None:
        if not self._links.loses(request):
            self._requests.dispatch(request)

    def _note(self, rule: Rule, phase: Any, note: str) -> None:
        if not rule.is_journalled:
            return
        self._journal.note(
            Fault(
                ts_ms=self._clock.wall_ms(),
                broker=self._broker_id,
                kind=rule.kind,
                target=rule.target(self._broker_id),
                phase=phase,
                note=note,
            )
        )
