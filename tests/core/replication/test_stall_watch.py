"""Watermarks that do not move are reported with their cause."""

from syncline.core.replication.effects import WatermarkHeld, WatermarkResumed
from syncline.core.replication.evidence import Evidence
from syncline.model.errors import ErrorCode
from tests.core.s0 import S0


def reports(s: S0) -> list[WatermarkHeld | WatermarkResumed]:
    """All reports so far."""
    return [effect for effect in s.effects if isinstance(effect, WatermarkHeld | WatermarkResumed)]


def test_stall_is_reported_once_with_the_member_that_holds_it() -> None:
    """The second tick that finds the mark in place reports; the third has nothing new."""
    s = S0(log_end=0)
    s.append(10, 100)
    s.f(3, 10, 200)

    for at in (5000, 6000, 7000):
        s.tick(at)

    (held,) = reports(s)
    assert isinstance(held, WatermarkHeld)
    assert (held.high_watermark, held.log_end, held.since_ms) == (0, 10, 5000)
    assert (held.evidence.rule, held.evidence["holders"]) == ("held:isr-member", "2")


def test_stall_by_the_gate_names_the_sizes() -> None:
    """Below min ISR nothing is committed, whichever follower fetches."""
    s = S0(isr=(1,), min_isr=2, log_end=10)

    s.tick(5000)
    s.tick(10_000)

    (held,) = reports(s)
    assert isinstance(held, WatermarkHeld)
    assert held.evidence.rule == "held:min-isr"
    assert dict(held.evidence.numbers) == {"isr_size": 1, "effective_min_isr": 2}


def test_stall_by_a_near_member_names_it() -> None:
    """A caught-up follower that the controller would not admit holds the mark."""
    s = S0(replicas=(1, 2), isr=(1,), log_end=10, high_watermark=10, confirms=False)
    s.f(2, 10, 4000)
    s.answer(s.sent[0], 4000, error=ErrorCode.INELIGIBLE_REPLICA)
    s.append(20, 4500)

    s.tick(5000)
    s.tick(10_000)

    (held,) = reports(s)
    assert isinstance(held, WatermarkHeld)
    assert held.evidence == Evidence("held:near-isr", (("holders", "2"),), held.evidence.followers)


def test_stall_ends_with_a_report() -> None:
    """What was reported as held is reported as resumed."""
    s = S0(log_end=0)
    s.append(10, 100)
    s.f(3, 10, 200)
    s.tick(5000)
    s.tick(6000)
    s.f(2, 10, 6500)

    s.tick(7000)

    assert reports(s)[1:] == [WatermarkResumed(10, 2000)]


def test_idle_partition_reports_nothing() -> None:
    """Nothing waits above the mark."""
    s = S0(log_end=10, high_watermark=10)
    s.f(2, 10, 100)
    s.f(3, 10, 100)

    for at in (5000, 10_000, 15_000):
        s.tick(at)

    assert s.effects == []
