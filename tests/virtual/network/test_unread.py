"""Files that are sent unread, in virtual time: what arrives late, and what a follower does with it."""

import random

import pytest

from syncline.node.unix_sockets.sending import FileSender
from syncline.records.buffers import Buffer
from syncline.records.builder import BatchBuilder
from syncline.virtual.cluster import INTERNAL_PORT
from syncline.virtual.disk.medium import Inode
from syncline.virtual.network.unread import Pages, UnreadFiles
from tests.node.world import World

SIZE_BYTES = 60_000


def batch(letter: bytes) -> bytes:
    """Return a batch as a producer sends it: one record."""
    builder = BatchBuilder()
    builder.append(1_700_000_000_000, b"key", letter * SIZE_BYTES)
    return bytes(builder.build())


def log_of(world: World, broker_id: int) -> Buffer:
    """Return all that a replica has."""
    file = world.partition(broker_id).log.segments[-1].file
    return bytes(file.read(0, file.size_bytes))


@pytest.mark.parametrize("seed", range(4))
def test_follower_that_wakes_late_stores_nothing_that_was_written_meanwhile(seed: int) -> None:
    """Its leader's answer is on the way while it is paused; the leader is replaced, cuts its log and copies another."""
    world = World(3, seed=seed)
    world.network.send_files_from(INTERNAL_PORT, FileSender)
    cluster, network = world.cluster, world.network

    async def scene() -> None:
        # Broker 1 is the controller.
        await world.topic(replicas=(2, 3, 1))
        old, new = await world.client(2), await world.client(1)
        await old.produce("t", batch(b"0"))
        await world.until(lambda: world.partition(3).log.log_end == world.partition(1).log.log_end == 1)

        for link in (("broker-1", "broker-2"), ("broker-2", "broker-1")):
            network.cut(*link)
        cluster.pause(world.host(3))
        sent = network.unread.sent
        await old.produce("t", batch(b"1"), acks=1)
        await world.until(lambda: network.unread.sent > sent)
        await world.until(lambda: world.partition(1).is_leader)
        await new.produce("t", batch(b"2"), acks=1)
        for link in (("broker-1", "broker-2"), ("broker-2", "broker-1")):
            network.heal(*link)
        await world.until(lambda: world.partition(2).log.log_end == 2 and log_of(world, 2) == log_of(world, 1))

        assert network.unread.changed == 0
        cluster.resume(world.host(3))
        await world.until(lambda: network.unread.changed)
        # If the pages were kept as they were sent, it stores them, and cuts them off again.
        await world.until(lambda: log_of(world, 3) == log_of(world, 1))

    world.run(scene)


def test_pages_are_old_or_new_piece_by_piece() -> None:
    """The kernel keeps pages together, more or fewer of them; behind a cut they are cleared."""
    unread = UnreadFiles(random.Random(1), 1 << 20)
    inode = Inode()
    inode.append(b"old" * 10_000)
    found = set()
    for _ in range(200):
        inode.truncate(0)
        inode.append(b"old" * 10_000)
        pages = Pages(unread, inode, 3_000, bytes(inode.data[3_000:]))[300:]
        assert len(pages) == 26_700
        assert pages.read() == b"old" * 8_900
        inode.truncate(6_000)
        inode.append(b"new" * 2_000)
        found.add(pages.read())

    assert {b"old" * 8_900, b"old" * 900 + b"new" * 2_000 + bytes(18_000)} < found
    assert unread.changed == 200
