"""The fourteen causes: how each is brought about, and what is true of it then."""

import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from syncline.explain.diagnosis.findings import Cause
from tests.incidents.ground import BROKERS, LAG_MS, NARROW, SESSION_MS, WIDE, Ground, Place
from tests.process import disks

Inject = Callable[[Ground, random.Random], "Truth"]


@dataclass
class Truth:
    """What was done: where to ask, and what the answer should be."""

    place: Place
    cause: Cause
    broker: int
    note: str
    lost: list[list[int]] = field(default_factory=list)


def _place(ground: Ground, rng: random.Random, topic: str) -> Place:
    return rng.choice(ground.places(topic))


def follower_dead(ground: Ground, rng: random.Random) -> Truth:
    """SIGKILL; the supervisor starts it again."""
    place = _place(ground, rng, WIDE)
    victim = rng.choice(place.followers)
    ground.faults.kill(victim)
    time.sleep(2)
    return Truth(place, Cause.FOLLOWER_DEAD, victim, "SIGKILL")


def follower_paused(ground: Ground, rng: random.Random) -> Truth:
    """SIGSTOP for a while."""
    place = _place(ground, rng, WIDE)
    victim, length_s = rng.choice(place.followers), rng.uniform(2.6, 5)
    _pause(ground, victim, length_s)
    return Truth(place, Cause.FOLLOWER_PAUSED, victim, f"SIGSTOP for {length_s:.1f} s")


def leader_paused(ground: Ground, rng: random.Random) -> Truth:
    """SIGSTOP for a while."""
    place = _place(ground, rng, WIDE)
    length_s = rng.uniform(2, 5)
    _pause(ground, place.leader, length_s)
    return Truth(place, Cause.LEADER_PAUSED, place.leader, f"SIGSTOP for {length_s:.1f} s")


def follower_disk(ground: Ground, rng: random.Random) -> Truth:
    """Each write of one partition takes longer than a follower may take."""
    place = _place(ground, rng, WIDE)
    victim = rng.choice(place.followers)
    delay_s = rng.uniform(1.8, 2.6)
    _slow_disk(ground, place, victim, "write", delay_s, rng.uniform(4, 6))
    return Truth(place, Cause.FOLLOWER_DISK, victim, f"writes take {delay_s:.1f} s")


def leader_disk(ground: Ground, rng: random.Random) -> Truth:
    """Reads (mostly) or writes of one partition take long on its leader."""
    place = _place(ground, rng, WIDE)
    direction = rng.choice(("read", "read", "read", "write"))
    delay_s = rng.uniform(2.6, 4) if direction == "read" else rng.uniform(1.5, 2.4)
    _slow_disk(ground, place, place.leader, direction, delay_s, rng.uniform(4, 6))
    return Truth(place, Cause.LEADER_DISK, place.leader, f"{direction}s take {delay_s:.1f} s")


def cut_both_ways(ground: Ground, rng: random.Random) -> Truth:
    """Nothing arrives between the leader and a follower."""
    place = _place(ground, rng, WIDE)
    other, length_s = rng.choice(place.followers), rng.uniform(3, 6)
    with ground.faults.add("link-cut", source=place.leader, target=other):
        time.sleep(length_s)
    note = f"{place.leader}-{other} for {length_s:.1f} s, controller {ground.controller()}"
    return Truth(place, Cause.CUT_BOTH_WAYS, other, note)


def cut_one_way(ground: Ground, rng: random.Random) -> Truth:
    """Nothing arrives from the leader at a follower, or the other way round."""
    place = _place(ground, rng, WIDE)
    ends = [place.leader, rng.choice(place.followers)]
    rng.shuffle(ends)
    length_s = rng.uniform(3, 6)
    with ground.faults.add("link-cut-one-way", source=ends[0], target=ends[1]):
        time.sleep(length_s)
    note = f"{ends[0]}>{ends[1]} for {length_s:.1f} s, controller {ground.controller()}"
    return Truth(place, Cause.CUT_ONE_WAY, -1, note, [ends])


def burst(ground: Ground, rng: random.Random) -> Truth:
    """Many records at once into one partition, in `messages` mode, which removes every follower that is far behind."""
    place = _place(ground, rng, WIDE)
    count = rng.randrange(150_000, 300_000)
    _alter(ground, {"replica.lag.mode": "messages", "replica.lag.max.messages": "100"})
    try:
        time.sleep(1)
        producer = ground.producer()
        for number in range(count):
            while True:
                try:
                    producer.produce(place.topic, b"y" * 200, partition=place.partition)
                    break
                except BufferError:
                    producer.poll(0.05)
            if not number % 1_000:
                producer.poll(0)
        producer.flush(20)
        time.sleep(1)
    finally:
        _alter(ground, {"replica.lag.mode": "time"})
    return Truth(place, Cause.BURST, place.leader, f"{count:,} records")


def new_replica(ground: Ground, rng: random.Random) -> Truth:
    """A broker comes back without the directory of one partition."""
    place = _place(ground, rng, WIDE)
    victim = rng.choice(place.followers)
    supervisor = ground.cluster.running.supervisor_pid
    os.kill(supervisor, signal.SIGSTOP)
    try:
        ground.faults.kill(victim)
        time.sleep(1)
        directory = ground.cluster.directory / f"broker-{victim}" / f"{place.topic}-{place.partition}"
        shutil.rmtree(directory)
    finally:
        os.kill(supervisor, signal.SIGCONT)
    time.sleep(3)
    return Truth(place, Cause.NEW_REPLICA, victim, "its directory was removed")


def controller_unreachable(ground: Ground, rng: random.Random) -> Truth:
    """A replica, no controller itself, is cut off from the controller; only a leader for so long that it is fenced."""
    controller = ground.controller()
    place = rng.choice([each for each in ground.places(NARROW) if controller not in (each.leader, *each.followers)])
    victim = rng.choice((place.leader, *place.followers))
    is_long = victim == place.leader and rng.random() < 0.5
    length_s = rng.uniform(1.4, 2) * SESSION_MS / 1_000 if is_long else rng.uniform(2.1, 2.4)
    with ground.faults.add("link-cut", source=victim, target=controller):
        time.sleep(length_s)
    role = "leader" if victim == place.leader else "follower"
    return Truth(place, Cause.CONTROLLER, victim, f"{role} cut from {controller} for {length_s:.1f} s")


def fenced_alive(ground: Ground, rng: random.Random) -> Truth:
    """A follower is cut off from the controller for longer than a session, and goes on fetching."""
    controller = ground.controller()
    place = rng.choice([each for each in ground.places(NARROW) if controller not in (each.leader, *each.followers)])
    victim = place.followers[0]
    length_s = rng.uniform(1.5, 2) * SESSION_MS / 1_000
    with ground.faults.add("link-cut", source=victim, target=controller):
        time.sleep(length_s)
    return Truth(place, Cause.FENCED_ALIVE, victim, f"cut from {controller} for {length_s:.1f} s")


def metadata_late(ground: Ground, rng: random.Random) -> Truth:
    """A follower learns of a new topic only when its leader has given it up."""
    controller = ground.controller()
    others = [each for each in (1, 2, 3) if each != controller]
    victim = rng.choice(others)
    leader = rng.choice([each for each in (1, 2, 3) if each != victim])
    third = next(each for each in (1, 2, 3) if each not in (victim, leader))
    name = f"late{rng.randrange(1 << 30)}"
    delay_s = 2 * LAG_MS / 1_000 + rng.uniform(0.5, 2)
    with ground.faults.add(
        "api-throttle",
        broker=controller,
        api="METADATA_DELTAS",
        listener="internal",
        client_id=f"broker-{victim}",
        delay_s=delay_s,
    ):
        # The question that waits for news was asked before the fault: this is its answer.
        ground.create(f"{name}-first", [[leader]])
        time.sleep(0.3)
        ground.create(name, [[leader, victim, third]])
        ground.topics.append(name)
        time.sleep(delay_s + 1)
    ground.topics.remove(name)
    place = Place(name, 0, leader, (victim, third))
    return Truth(place, Cause.METADATA_LATE, victim, f"metadata {delay_s:.1f} s late, controller {controller}")


def disk_full(ground: Ground, rng: random.Random) -> Truth:
    """The disk of a replica has no room for this partition, until the fault is over."""
    place = _place(ground, rng, WIDE)
    victim = rng.choice((place.leader, *place.followers))
    length_s = rng.uniform(3, 6)
    with ground.faults.add(
        "disk-fail",
        broker=victim,
        topic=place.topic,
        partition=place.partition,
        direction="write",
        errno="ENOSPC",
        for_s=length_s,
    ):
        time.sleep(length_s)
    role = "leader" if victim == place.leader else "follower"
    return Truth(place, Cause.DISK_FULL, victim, f"{role}, ENOSPC for {length_s:.1f} s")


def damaged_log(ground: Ground, rng: random.Random) -> Truth:
    """A bit of the leader's log flips, and a follower that lost its directory copies the log again."""
    place = _place(ground, rng, WIDE)
    copier = rng.choice(place.followers)
    name = f"{place.topic}-{place.partition}"
    supervisor = ground.cluster.running.supervisor_pid
    os.kill(supervisor, signal.SIGSTOP)
    try:
        ground.faults.kill(copier)
        time.sleep(1)
        shutil.rmtree(ground.cluster.directory / f"broker-{copier}" / name)
        segments = sorted((ground.cluster.directory / f"broker-{place.leader}" / name).glob("*.log"))
        offset = disks.flip_bit(segments[0], rng.uniform(0.2, 0.8))
    finally:
        os.kill(supervisor, signal.SIGCONT)
    time.sleep(3)
    return Truth(place, Cause.LOG_DAMAGED, place.leader, f"offset {offset}, copied by {copier}")


CAUSES: dict[str, Inject] = {
    "follower-process-dead": follower_dead,
    "follower-paused": follower_paused,
    "follower-disk-slow": follower_disk,
    "leader-disk-slow": leader_disk,
    "leader-paused": leader_paused,
    "network-cut-both-ways": cut_both_ways,
    "network-cut-one-way": cut_one_way,
    "burst-of-writes": burst,
    "new-replica-catching-up": new_replica,
    "controller-unreachable": controller_unreachable,
    "fenced-though-alive": fenced_alive,
    "metadata-late": metadata_late,
    "disk-full": disk_full,
    "damaged-log": damaged_log,
}


def _pause(ground: Ground, broker: int, length_s: float) -> None:
    fault = ground.faults.pause(broker)
    try:
        time.sleep(length_s)
    finally:
        fault.clear()


def _slow_disk(ground: Ground, place: Place, broker: int, direction: str, delay_s: float, length_s: float) -> None:
    with ground.faults.add(
        "disk-slow",
        broker=broker,
        topic=place.topic,
        partition=place.partition,
        direction=direction,
        delay_s=delay_s,
        for_s=length_s,
    ):
        time.sleep(length_s)


def _alter(ground: Ground, configs: dict[str, str]) -> None:
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

    admin = ground.admin()
    for broker in BROKERS:
        # librdkafka has no name for all brokers at once.
        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in configs.items()
        ]
        resource = ConfigResource(ResourceType.BROKER, str(broker), incremental_configs=entries)
        for future in admin.incremental_alter_configs([resource], request_timeout=10).values():
            future.result(15)
