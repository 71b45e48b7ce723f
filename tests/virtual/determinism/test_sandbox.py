"""The sealed world: what third-party code gets instead of the real one, and what is refused."""

import asyncio
import gc
import os
import random
import socket
import sys
import threading
import time
import types
import uuid
from pathlib import Path

import pytest

from syncline.virtual.determinism.sandbox import OutsideWorldError, sealed
from syncline.virtual.time.loop import VirtualLoop


@pytest.fixture
def loop():
    """Return a loop that is closed afterwards."""
    it = VirtualLoop()
    yield it
    it.close()


def test_third_party_code_gets_virtual_time(loop) -> None:
    """`time.time` and `time.monotonic` follow the loop's clock."""
    with sealed(loop, 1):
        before = time.monotonic(), time.time()
        loop.run_until_complete(asyncio.sleep(100))
        after = time.monotonic(), time.time()

    assert after[0] - before[0] == pytest.approx(100)
    assert after[1] - before[1] == pytest.approx(100)
    assert abs(time.time() - after[1]) > 1000


def throws(loop: VirtualLoop, seed: int) -> tuple[object, ...]:
    """Return what the dice of one run show."""
    with sealed(loop, seed):
        return random.random(), random.choice(range(1000)), os.urandom(8), uuid.uuid4()


def test_third_party_dice_are_seeded(loop) -> None:
    """The same seed throws the same numbers, and the real dice come back."""
    assert throws(loop, 1) == throws(loop, 1)
    assert throws(loop, 1) != throws(loop, 2)
    assert os.urandom(8) != os.urandom(8)


def own_module(code: str) -> types.CodeType:
    """Run `code` as if it stood in a module of ours."""
    module = types.ModuleType("syncline.node.planted")
    exec(compile(code, "planted", "exec"), module.__dict__)
    return module.work


@pytest.mark.parametrize("call", ["time.time()", "time.monotonic()", "random.random()", "random.shuffle([1])"])
def test_own_modules_are_refused_the_clock_and_the_dice(loop, call) -> None:
    """Production code must use what it was given."""
    work = own_module(f"import time, random\ndef work():\n    {call}")
    with sealed(loop, 1), pytest.raises(OutsideWorldError):
        work()


def test_files_sockets_and_threads_are_refused(loop, tmp_path: Path) -> None:
    """The audit hook stops what would leave the simulation."""
    with sealed(loop, 1):
        with pytest.raises(OutsideWorldError):
            (tmp_path / "x").write_text("x")
        with pytest.raises(OutsideWorldError):
            socket.socket()
        with pytest.raises(OutsideWorldError):
            threading.Thread(target=print).start()
        with pytest.raises(OutsideWorldError):
            time.sleep(1)
    (tmp_path / "x").write_text("x")


def test_modules_may_be_loaded_during_a_run(loop, tmp_path: Path, monkeypatch) -> None:
    """Lazy imports read files, and take no virtual time."""
    (tmp_path / "loaded_late.py").write_text("answer = 42\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with sealed(loop, 1):
        import loaded_late
    sys.modules.pop("loaded_late")

    assert loaded_late.answer == 42


def test_collector_is_off_during_a_run(loop) -> None:
    """Finalisers run where reference counts say."""
    with sealed(loop, 1):
        is_on = gc.isenabled()

    assert not is_on
    assert gc.isenabled()


def test_client_partitions_hash_without_the_interpreters_salt(loop) -> None:
    """Sets of partitions inside aiokafka have the same order in every process."""
    from aiokafka import TopicPartition

    with sealed(loop, 1):
        found = hash(TopicPartition("a", 3))

    assert found == hash((3904355907, 3))


def test_other_threads_of_the_process_go_on_during_a_run(loop, tmp_path: Path) -> None:
    """A library's housekeeping thread may sleep and open files: it is no part of the world."""
    outcome: list[object] = []
    may_begin = threading.Event()

    def keep_house() -> None:
        may_begin.wait(5)
        try:
            time.sleep(0)
            outcome.append((tmp_path / "house").write_text("kept"))
        except RuntimeError as error:
            outcome.append(error)

    housekeeper = threading.Thread(target=keep_house)
    housekeeper.start()
    with sealed(loop, 1):
        may_begin.set()
        housekeeper.join(5)

    assert outcome == [4]
