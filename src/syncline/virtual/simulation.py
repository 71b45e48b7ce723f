"""One run: a cluster, its clients, its faults, and the verdict, all from one seed.

Phases: brokers start and the topics are created; clients work while faults
strike; all faults end; clients write a little more, and the cluster has
`SETTLE_S` to become whole, once more if only then throttles are removed; then
the disks are read and checked, and everything stops in good order.
"""

import asyncio
import contextlib
import logging
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TextIO

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError

from syncline.model.ids import OFFSETS_TOPIC, TopicPartition
from syncline.storage.errors import StorageError
from syncline.virtual.clients.costs import CostlyClient
from syncline.virtual.clients.workload import ConsumerClient, ProducerClient
from syncline.virtual.cluster import ClusterSettings, VirtualCluster
from syncline.virtual.determinism.sandbox import sealed
from syncline.virtual.determinism.streams import stream
from syncline.virtual.determinism.trace import Trace
from syncline.virtual.faults import Fault, FaultSettings, draw_lasting_plan, draw_late_answers, draw_plan
from syncline.virtual.injector import Injector
from syncline.virtual.liveness.watch import LivenessWatch
from syncline.virtual.operators.moves import BROKERS as MOVES_BROKERS
from syncline.virtual.operators.moves import CONFIG as MOVES_CONFIG
from syncline.virtual.operators.moves import Operator, draw_moves, leftovers
from syncline.virtual.operators.throttles import KIND as THROTTLE
from syncline.virtual.operators.throttles import Throttler, draw_throttles
from syncline.virtual.time.durations import SECOND
from syncline.virtual.verdict import Held, judge, nothing_held, unsettled

START_S: Final = 15
# After the faults: time for the last writes, and for every replica to catch up.
QUIET_SHARE: Final = 0.3
LAST_WRITES_S: Final = 2
# With lasting faults: long enough for the last windows of L9, after all faults have ended.
LAST_PROBES_S: Final = 6
SETTLE_S: Final = 45
CLIENT_STOP_S: Final = 5
REPLICATION_FACTOR: Final = 3
EPOCH_REQUEST_SHARE: Final = 0.3
MOVES_SHARE: Final = 0.3
THROTTLES_SHARE: Final = 0.3
SLOW_READ_SHARE: Final = 0.3
UNREAD_SHARE: Final = 0.3
RENEWALS_SHARE: Final = 0.2
# How often coordinators look whether the logs of their groups have grown, where it is not as rarely as in life.
RENEWALS_INTERVAL_MS: Final = "800"
# Records are larger there, so that they are worth to be sent unread, and moves must end all the same.
LARGE_RATE_FACTOR: Final = 50
# Leaders that relinquish at once, again and again: safety must not depend on their patience (KIP-501).
SLOW_READ_CONFIG: Final = {
    "follower.fetch.pending.reads.insync.enable": "true",
    "follower.fetch.process.time.max.ms": "200",
    "leader.relinquish.min.tenure.ms": "0",
    "leader.relinquish.max.per.window": "1000",
}
# Death of a process and a disk that says no are noticed at once, all else within the session: both bounds are checked.
LASTING_SESSION_MS: Final = ("1500", "4000")
FAILURES_SHOWN: Final = 12
# A run with so many failures says nothing more.
FAILURES_MAX: Final = 50
FRAMES_SHOWN: Final = 5


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """Options of a run besides its seed."""

    seconds: int = 30
    with_faults: bool = True
    plan: tuple[Fault, ...] | None = None
    # Faults last longer than the cluster needs to notice them, and a prober checks L9 meanwhile.
    with_lasting_faults: bool = False
    # Off only to show that what watches a run from outside finds a mistake by itself.
    check_invariants: bool = True


@dataclass(kw_only=True)
class RunResult:
    """The result of a run."""

    seed: int
    digest: str = ""
    simulated_s: float = 0.0
    wall_s: float = 0.0
    callbacks: int = 0
    acknowledged: int = 0
    in_doubt: int = 0
    duplicates: int = 0
    failures: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    faults: dict[str, int] = field(default_factory=dict)
    plan: tuple[Fault, ...] = ()

    @property
    def is_good(self) -> bool:
        """Whether the run had no failure."""
        return not self.failures


class _ErrorsOfBrokers(logging.Handler):
    """Collects errors in the brokers' logs that no fault explains."""

    def __init__(self, failed: Callable[[str], object]) -> None:
        super().__init__(logging.ERROR)
        self._failed = failed

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and not isinstance(error, OSError | StorageError):
            self._failed(f"a broker logged: {record.getMessage()}: {error!r} {_where(error)}")


def _where(error: BaseException) -> str:
    """Return the innermost frames of an error's traceback."""
    places = traceback.extract_tb(error.__traceback__)[-FRAMES_SHOWN:]
    return (
        "(" + " > ".join(f"{place.filename.rpartition('/')[2]}:{place.lineno} {place.name}" for place in places) + ")"
    )


class Simulation:
    """One run, step by step."""

    def __init__(self, seed: int, settings: RunSettings, lines: TextIO | None = None) -> None:
        self._settings = settings
        self._seed = seed
        rng = stream(seed, "shape")
        config = {"log.roll.ms": str(rng.choice((700, 3_000, 604_800_000)))}
        # Both safe ways to reconcile logs; drawn from their own stream, so that the rest of a seed stays the same.
        if stream(seed, "truncation").random() < EPOCH_REQUEST_SHARE:
            config["log.truncation.mode"] = "epoch-request"
        if stream(seed, "slow-reads").random() < SLOW_READ_SHARE:
            config.update(SLOW_READ_CONFIG)
        # Moves are for faults that strike often: what L9 expects of a partition, it does of three replicas.
        is_ordinary = settings.with_faults and not settings.with_lasting_faults and settings.plan is None
        self._has_moves = is_ordinary and stream(seed, "moves").random() < MOVES_SHARE
        self._has_throttles = is_ordinary and stream(seed, "throttled").random() < THROTTLES_SHARE
        # The rates of throttles are for small records.
        self._sends_unread = not self._has_throttles and stream(seed, "sends-unread").random() < UNREAD_SHARE
        if self._has_moves:
            config.update(MOVES_CONFIG)
        # Retention has nothing to delete but what a renewal leaves: segments roll, and no record is too old.
        if stream(seed, "renewals").random() < RENEWALS_SHARE:
            config["log.retention.check.interval.ms"] = RENEWALS_INTERVAL_MS
        if settings.with_lasting_faults:
            config["broker.session.timeout.ms"] = stream(seed, "lasting").choice(LASTING_SESSION_MS)
        self._cluster = VirtualCluster(
            seed,
            ClusterSettings(
                brokers=MOVES_BROKERS if self._has_moves else 3,
                config=config,
                is_shuffled=rng.random() < 0.5,
                check_invariants=settings.check_invariants,
                sends_unread=self._sends_unread,
            ),
            Trace(lines),
        )
        self._cluster.loop.set_exception_handler(self._unhandled)
        self._result = RunResult(seed=seed)
        partitions = rng.randint(1, 3)
        shapes = rng.choice(((True,), (False,), (True, False)))
        # One topic per producer, so that each topic is checked against its producer's guarantee.
        self._topics = {f"topic-{'once' if is_idempotent else 'plain'}": is_idempotent for is_idempotent in shapes}
        self._partitions = partitions
        self._is_grouped = {topic: rng.random() < 0.5 for topic in self._topics}
        self._keys = tuple(TopicPartition(topic, number) for topic in self._topics for number in range(partitions))
        self._producers: list[ProducerClient] = []
        self._consumers: list[ConsumerClient] = []
        self._watch = LivenessWatch(self._cluster, self._keys) if settings.with_lasting_faults else None

    def run(self) -> RunResult:
        """Run it and return the result."""
        began = time.perf_counter()
        cluster = self._cluster
        result = self._result
        errors = _ErrorsOfBrokers(self._failed)
        logger = logging.getLogger("syncline")
        level, propagates = logger.level, logger.propagate
        logger.addHandler(errors)
        logger.setLevel(logging.ERROR)
        logger.propagate = False
        try:
            with sealed(cluster.loop, self._seed):
                asyncio.set_event_loop(cluster.loop)
                try:
                    cluster.loop.run_until_complete(self._main())
                except Exception as error:  # noqa: BLE001 - a run that cannot continue is a failed run, with its seed
                    cluster.failures.append(f"the run broke off: {error!r} {_where(error)}")
                result.digest = cluster.trace.digest()
                self._take_apart()
        finally:
            asyncio.set_event_loop(None)
            logger.removeHandler(errors)
            logger.setLevel(level)
            logger.propagate = propagates
        result.failures = [*cluster.ghost.violations, *cluster.failures]
        result.counts = dict(sorted(cluster.ghost.counts.items()))
        result.simulated_s = cluster.loop.now_ns / SECOND
        result.callbacks = cluster.loop.callbacks_run
        result.wall_s = time.perf_counter() - began
        return result

    def _failed(self, text: str) -> None:
        """Take a failure. End the run when there are many, as clients retry for ever what a broken broker refuses."""
        failures = self._cluster.failures
        failures.append(text)
        if len(failures) == FAILURES_MAX:
            self._cluster.loop.stop()

    def _unhandled(self, _loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        error = context.get("exception")
        is_callback = "handle" in context or "transport" in context
        if isinstance(error, KafkaError | OSError) and not is_callback:
            return  # a client's future that it no longer awaits
        where = _where(error) if isinstance(error, BaseException) else ""
        self._failed(f"unhandled: {context.get('message')}: {error!r} {where}")

    async def _main(self) -> None:
        cluster = self._cluster
        loop = cluster.loop
        for host in cluster.hosts.values():
            cluster.start(host)
        await self._until(
            lambda: all(host.starting and host.starting.done() for host in cluster.hosts.values()), START_S
        )
        admin = cluster.client_process("client-0").context.run(loop.create_task, self._make_topics())
        await asyncio.wait_for(admin, START_S)
        self._start_clients()
        if self._watch is not None:
            self._watch.begin()

        seconds = self._settings.seconds
        quiet_ns = int(seconds * (1 - QUIET_SHARE) * SECOND)
        clients = tuple(client.name for client in self._clients())
        costly = CostlyClient(cluster) if self._settings.with_lasting_faults else None
        rate_factor = LARGE_RATE_FACTOR if self._sends_unread else 1
        operator = Operator(cluster, self._keys, rate_factor=rate_factor) if self._has_moves else None
        plan = self._plan(loop.now_ns, quiet_ns)
        is_throttled = any(fault.kind == THROTTLE for fault in plan)
        throttler = Throttler(cluster, self._keys) if is_throttled else None
        injector = Injector(cluster, clients, self._keys, costly, operator, throttler)
        injector.schedule(plan)
        await asyncio.sleep((quiet_ns - loop.now_ns) / SECOND)
        injector.heal_all()
        self._result.faults = injector.counts

        await asyncio.sleep(LAST_WRITES_S if self._watch is None else LAST_PROBES_S)
        if self._watch is not None:
            late, judged = self._watch.end(injector.episodes)
            cluster.failures.extend(late)
            cluster.failures.extend(costly.violations if costly is not None else ())
            cluster.ghost.counts.update(judged)
        for producer in self._producers:
            producer.stop_sending()
        if throttler is not None:
            await self._settle("the last write, under throttles", throttler.held)
            cluster.ghost.counts["held replicas"] = sum(len(throttler.held(key)) for key in self._keys)
            await throttler.clear()
        await self._settle("the last write" if throttler is None else "the end of all throttles", nothing_held)
        if loop.now_ns < seconds * SECOND:
            await asyncio.sleep((seconds * SECOND - loop.now_ns) / SECOND)
        self._judge()
        self._count_renewed()
        await self._stop()

    def _count_renewed(self) -> None:
        groups = (host.partition(TopicPartition(OFFSETS_TOPIC, 0)) for host in self._cluster.hosts.values())
        self._cluster.ghost.counts["renewed group logs"] = sum(
            each is not None and each.log.log_start > 0 for each in groups
        )

    def _plan(self, begin_ns: int, end_ns: int) -> tuple[Fault, ...]:
        if not self._settings.with_faults:
            return ()
        plan = self._settings.plan
        if plan is None:
            names = tuple(host.name for host in self._cluster.hosts.values())
            rng = stream(self._seed, "faults")
            if self._settings.with_lasting_faults:
                plan = draw_lasting_plan(rng, names, begin_ns, end_ns)
            else:
                plan = draw_plan(rng, names, begin_ns, end_ns, FaultSettings())
            if self._has_moves:
                plan = (*plan, *draw_moves(stream(self._seed, "requests"), begin_ns, end_ns))
            if self._has_throttles:
                plan = (*plan, *draw_throttles(stream(self._seed, "throttles"), begin_ns, end_ns))
            if self._sends_unread and not self._settings.with_lasting_faults:
                plan = (*plan, *draw_late_answers(stream(self._seed, "late-answers"), names, begin_ns, end_ns))
            plan = tuple(sorted(plan))
        self._result.plan = plan
        return plan

    async def _settle(self, what: str, held: Held) -> None:
        loop = self._cluster.loop
        end_ns = loop.now_ns + SETTLE_S * SECOND
        while (missing := self._unsettled(held)) is not None and loop.now_ns < end_ns:  # noqa: ASYNC110 - see `_until`
            await asyncio.sleep(0.2)
        if missing is not None:
            self._cluster.failures.append(f"not settled {SETTLE_S} s after {what}: {missing}")

    async def _until(self, is_true: Callable[[], bool], seconds: float) -> None:
        end_ns = self._cluster.loop.now_ns + int(seconds * SECOND)
        while not is_true():
            if self._cluster.loop.now_ns > end_ns:
                raise TimeoutError(f"the brokers were not up after {seconds} s")
            await asyncio.sleep(0.02)

    async def _make_topics(self) -> None:
        cluster = self._cluster
        admin = AIOKafkaAdminClient(
            bootstrap_servers=cluster.bootstrap, client_id="client-0", request_timeout_ms=10_000
        )
        await admin.start()
        topics = [
            NewTopic(name, num_partitions=self._partitions, replication_factor=REPLICATION_FACTOR)
            for name in self._topics
        ]
        while not all(name in cluster.store.image.topics for name in self._topics):
            # This client fails with an AttributeError until it knows the controller.
            with contextlib.suppress(KafkaError, AttributeError):
                await admin.create_topics(topics)
            await asyncio.sleep(0.1)
        await admin.close()

    def _start_clients(self) -> None:
        number = 0
        for topic, is_idempotent in self._topics.items():
            number += 1
            producer = ProducerClient(
                self._cluster,
                number,
                topic,
                self._partitions,
                is_idempotent=is_idempotent,
                has_large_records=self._sends_unread,
            )
            self._producers.append(producer)
            number += 1
            group = f"group-{topic}" if self._is_grouped[topic] else None
            self._consumers.append(ConsumerClient(self._cluster, number, topic, self._partitions, group=group))

    def _clients(self) -> list[ProducerClient | ConsumerClient]:
        return [*self._producers, *self._consumers]

    def _unsettled(self, held: Held) -> str | None:
        what = leftovers(self._cluster, held) if self._has_moves else None
        return what or unsettled(self._cluster, self._keys, self._producers, self._consumers, held)

    def _judge(self) -> None:
        cluster = self._cluster
        verdict = judge(cluster, self._keys, self._producers, self._consumers)
        cluster.failures.extend(verdict.violations)
        for client in self._clients():
            cluster.failures.extend(client.violations)
        for consumer in self._consumers:
            if consumer.resets:
                cluster.ghost.counts["consumer resets"] = consumer.resets
        for client in self._clients():
            if client.task.done() and not client.task.cancelled() and client.task.exception() is not None:
                cluster.failures.append(f"{client.name} failed: {client.task.exception()!r}")
        result = self._result
        if self._sends_unread:
            unread = cluster.network.unread
            cluster.ghost.counts.update({"sent unread": unread.sent, "changed before they were read": unread.changed})
        result.duplicates = verdict.duplicates
        result.acknowledged = sum(len(producer.history) - producer.in_doubt for producer in self._producers)
        result.in_doubt = sum(producer.in_doubt for producer in self._producers)
        cluster.failures.extend(_too_quiet(result))

    async def _stop(self) -> None:
        for consumer in self._consumers:
            consumer.stop()
        for client in self._clients():
            if not client.task.done():
                # This client waits for ever for its last commit if it loses its coordinator at that moment.
                await asyncio.wait([client.task], timeout=CLIENT_STOP_S)
        await self._cluster.stop()

    def _take_apart(self) -> None:
        loop = self._cluster.loop
        for task in loop.world_tasks():
            task.cancel()
        self._cluster.take_apart()


def _too_quiet(result: RunResult) -> list[str]:
    """Return a failure if almost nothing was acknowledged: such a run proves nothing and must not pass."""
    total = result.acknowledged + result.in_doubt
    if result.acknowledged < 10 or result.acknowledged < 0.3 * total:
        return [f"only {result.acknowledged} of {total} sends were acknowledged"]
    return []


def run_seed(seed: int, settings: RunSettings | None = None, lines: TextIO | None = None) -> RunResult:
    """Run one seed and return the result."""
    return Simulation(seed, settings or RunSettings(), lines).run()
