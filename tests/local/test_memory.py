"""How much memory this machine has, and when a broker gives some back."""

import pytest

from syncline.local.memory import BUSY_SHARE, GROWTH_BYTES, GivesBack, machine_memory_bytes, resident_bytes, trim_heap
from syncline.virtual.loop import VirtualLoop

LOOK_S = 30.0


class Figures:
    """What the system says of a process."""

    def __init__(self) -> None:
        self.resident_bytes = 100 << 20
        self.cpu_s = 0.0
        self.trims = 0

    def trim(self) -> None:
        """Return what is more than at the start."""
        self.trims += 1
        self.resident_bytes = 100 << 20


def looked(figures: Figures, grown_bytes: int, cpu_s: float) -> int:
    """Return how often memory is given back in two looks, the first after a process has grown and used its CPU."""
    loop = VirtualLoop()
    gives_back = GivesBack(
        loop,
        resident=lambda: figures.resident_bytes,
        cpu_s=lambda: figures.cpu_s,
        trim=figures.trim,
        look_s=LOOK_S,
    )
    figures.resident_bytes += grown_bytes
    figures.cpu_s += cpu_s
    loop.call_later(2.5 * LOOK_S, loop.stop)
    loop.run_forever()
    gives_back.close()
    loop.close()
    return figures.trims


@pytest.mark.parametrize(
    ("grown_bytes", "expected"), [(GROWTH_BYTES + 1, 1), (GROWTH_BYTES, 0), (0, 0)], ids=["grown", "little", "not"]
)
def test_memory_is_given_back_once_after_it_has_grown(grown_bytes: int, expected: int) -> None:
    """The look after it finds nothing to do, since the memory is what it was at the start."""
    assert looked(Figures(), grown_bytes, 0) == expected


def test_busy_process_keeps_its_memory_until_it_is_idle() -> None:
    """While it works it would need the memory again; the next look finds it idle."""
    assert looked(Figures(), 100 << 20, LOOK_S * BUSY_SHARE + 1) == 1


def test_machine_tells_its_memory() -> None:
    """The figures are real ones."""
    trim_heap()

    assert 0 < resident_bytes() < machine_memory_bytes()
