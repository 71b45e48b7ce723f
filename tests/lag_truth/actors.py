"""Producers and consumers of one client library each, at random: speeds, pauses, restarts, commits back and forth.

One thread drives one agent (`tests/interop/agent.py`) and logs what it does. What a library makes of a killed broker is
its own affair: an error is counted, an agent that is gone is replaced.
"""

import base64
import contextlib
import os
import random
import signal
import threading
from collections.abc import Callable

from tests.interop.agent import Agent, ClientError
from tests.lag_truth.history import History, now_ms

SESSION_MS = 3_000
# How often a member is asked what it has committed.
ASK_S = 1.0
HOUR_MS = 3_600_000

StartAgent = Callable[[], Agent]


class Actor:
    """One agent, which is started again when it is gone."""

    def __init__(self, name: str, start: StartAgent, seed: int, history: History) -> None:
        self.name = name
        self.history = history
        self.rng = random.Random(f"{name} {seed}")
        self._start = start
        self._agent: Agent | None = None
        self.is_over = threading.Event()
        self.failure: BaseException | None = None
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)

    def _run(self) -> None:
        try:
            while not self.is_over.is_set():
                try:
                    self.act()
                except ClientError:
                    # A member may be left behind that holds partitions and reads nothing.
                    self.history.count(f"{self.name}: errors")
                    self.kill()
                except AssertionError:
                    # No answer: its watchdog has killed it.
                    self.history.count(f"{self.name}: no answer")
                    self.kill()
        except BaseException as error:  # noqa: BLE001 - judged by the run
            self.failure = error
        finally:
            self.kill()

    def act(self) -> None:
        """Do one thing."""
        raise NotImplementedError

    @property
    def agent(self) -> Agent:
        """The agent, started if need be."""
        if self._agent is None:
            self._agent = self._start()
        return self._agent

    def kill(self) -> None:
        """End the agent without a word of farewell."""
        agent, self._agent = self._agent, None
        if agent is not None:
            agent.kill()

    def rest(self, seconds: float) -> None:
        """Do nothing for a while, or until the run is over."""
        self.is_over.wait(seconds)


class ProducerActor(Actor):
    """Sends records with names to partitions at random."""

    def __init__(
        self, name: str, start: StartAgent, seed: int, history: History, topic: str, partitions: int, rate: float
    ) -> None:
        super().__init__(f"producer-{name}", start, seed, history)
        self._topic = topic
        self._partitions = partitions
        self._rate = rate
        self._number = 0
        self._is_idempotent = self._is_single = False

    def act(self) -> None:
        """Send some records, then wait; now and then for long, or restart."""
        rng = self.rng
        if rng.random() < 0.02:
            self.kill()
            self.history.count("producers restarted")
            self._is_idempotent, self._is_single = rng.random() < 0.5, rng.random() < 0.3
        count = rng.choice((1, 1, 2, 5, 20, 20, 60))
        chosen = rng.sample(range(self._partitions), rng.randint(1, self._partitions))
        names, records = [], []
        for _ in range(count):
            self._number += 1
            name = f"{self.name}:{self._number}:".encode()
            names.append(name)
            records.append(
                {
                    "partition": rng.choice(chosen),
                    "key": None,
                    # A client that sends records one by one does so by a small bound on batches.
                    "value": base64.b64encode(
                        name + b"x" * rng.choice((10, 100, 200 if self._is_single else 1_000))
                    ).decode(),
                    "headers": [],
                    # Producers' clocks say nothing about when a record came.
                    "timestamp_ms": int(now_ms()) - rng.choice((0, 0, rng.randint(0, HOUR_MS))),
                }
            )
        agent = self.agent
        self.history.sending(names)
        self.history.acknowledged(
            agent.produce(self._topic, records, idempotent=self._is_idempotent, singly=self._is_single)
        )
        is_long = rng.random() < 0.02
        self.rest(rng.uniform(2, 8) if is_long else rng.expovariate(self._rate / count))


class ConsumerActor(Actor):
    """A group with one member that comes and goes, and whose offsets are set while it has none."""

    def __init__(self, name: str, start: StartAgent, seed: int, history: History, topic: str, partitions: int) -> None:
        super().__init__(f"consumer-{name}", start, seed, history)
        self.group = f"group-{name}"
        self._topic = topic
        self._commits = [history.commits[self.group, partition] for partition in range(partitions)]
        self._members = 0
        self._is_empty = True

    def act(self) -> None:
        """Be a member for some time, then nobody; sometimes set offsets meanwhile."""
        rng = self.rng
        self._members += 1
        member = f"member-{self._members}"
        agent = self.agent
        for commits in self._commits:
            commits.advancing(now_ms())
        self._is_empty = False
        agent.join(member, self.group, self._topic, session_timeout_ms=SESSION_MS)
        until_ms = now_ms() + rng.uniform(3_000, 20_000)
        while now_ms() < until_ms and not self.is_over.is_set():
            if rng.random() < 0.15:
                self._pause(agent, rng.uniform(0.5, 6))
            self._ask(agent, member)
            self.rest(ASK_S)
        if rng.random() < 0.4 or self.is_over.is_set():
            self.kill()
            self.history.count("members killed")
        else:
            agent.do("leave", member=member)
            self._is_empty = True
            self.history.count("members left")
        self.rest(rng.uniform(0, 15))
        if self._is_empty and rng.random() < 0.5:
            self._set(rng.sample(range(len(self._commits)), rng.randint(1, len(self._commits))))
            self.rest(rng.uniform(0, 8))

    def _pause(self, agent: Agent, seconds: float) -> None:
        os.kill(agent.process.pid, signal.SIGSTOP)
        self.history.count("members paused")
        try:
            self.rest(seconds)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(agent.process.pid, signal.SIGCONT)

    def _ask(self, agent: Agent, member: str) -> None:
        """Log what a member has committed."""
        newest: dict[int, int] = {}
        for partition, offset in agent.do("received", member=member):
            newest[partition] = max(offset, newest.get(partition, -1))
        for partition, offset in newest.items():
            self._commits[partition].reached(offset + 1, now_ms())

    def _set(self, partitions: list[int]) -> None:
        """Commit any offsets for a group without members."""
        offsets = [[partition, self.rng.randint(0, self.history.ends[partition])] for partition in partitions]
        for partition, offset in offsets:
            self._commits[partition].setting(offset, now_ms())
        self.agent.do("set_group_offsets", group=self.group, topic=self._topic, offsets=offsets)
        for partition, offset in offsets:
            self._commits[partition].may_be(now_ms(), offset, offset)
        self.history.count("offsets set")
