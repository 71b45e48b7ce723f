"""The short form of `make attack`: each kind of attack in a small size, on three real brokers, in some seconds.

The limits are wide, because other tests use the machine at the same time. What is not wide: nothing acknowledged is
lost, no lease, no registration and no leadership changes, and no broker logs a traceback.
"""

import pytest

from tests.attack.catalogue import CASES
from tests.attack.run import Run
from tests.attack.verdict import MB, Limits

pytestmark = pytest.mark.process

LIMITS = Limits(
    slowest_ack_ms=5_000,
    p99_ack_ms=2_000,
    longest_hold_ms=2_000,
    p999_hold_ms=500,
    resident_bytes=400 * MB,
)


def test_a_well_behaved_client_is_served_while_others_attack() -> None:
    """It gets its acknowledgements in time, reads what it wrote, and the brokers stay what they were."""
    lines: list[str] = []
    run = Run(LIMITS, lines.append, short=True)
    try:
        run.play_together([case for case in CASES if case.short is not None])
        run.finish()
    finally:
        run.close()

    assert run.result.broken == {}, "\n".join([*lines, *(each.note for each in run.result.figures)])
    assert run.result.tracebacks == []
    assert run.result.skipped == {}
