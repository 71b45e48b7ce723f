"""The report for scripts: the numbers of one broker as JSON. What is infinite or never is null."""

from math import isfinite
from typing import Any, Final

from syncline.core.lag.miss_ratio import curve
from syncline.lag_report.advice import Advice, Needed
from syncline.lag_report.agreement import agreements
from syncline.lag_report.facts import CacheFacts
from syncline.lag_report.memory_axis import axis_of

_POINTS: Final = 40


def fields_of(facts: CacheFacts, advice: Advice) -> dict[str, Any]:
    """Return sizes in bytes, rates in bytes per second, ratios from 0 to 1."""
    axis = axis_of(facts, advice)
    sizes = [axis.at(step / _POINTS) for step in range(_POINTS + 1)]
    compared = agreements([(facts.title, facts)])
    now, present = advice.now, advice.present
    return {
        "broker": facts.broker,
        "memory_bytes": facts.memory_bytes,
        "is_supposed": facts.is_supposed,
        "memory_now_bytes": facts.present_bytes if facts.is_supposed else facts.memory_bytes,
        "written_bytes_per_s": facts.written_bytes_per_s,
        "read_bytes_per_s": facts.read_bytes_per_s,
        "hit_ratio": advice.now.hit_ratio,
        "hit_ratio_now": present.hit_ratio if present is not None else None if facts.is_supposed else now.hit_ratio,
        "hit_ratio_without_pollution": advice.without_pollution.hit_ratio,
        "hit_ratio_measured": facts.measured_hit_ratio,
        "behaves_like_bytes": compared[0].behaves_like_bytes if compared else None,
        "disk_bytes_per_s": advice.now.disk_bytes_per_s,
        "residence_s": advice.now.residence_s if isfinite(advice.now.residence_s) else None,
        "out_of_reach": facts.out_of_reach,
        "memory_for": _by_share(advice.needed),
        "worst_reader": advice.worst,
        "memory_without_worst_reader": advice.needed_without_worst,
        "curve": [[round(point.memory_bytes), point.hit_ratio] for point in curve(facts.demand, sizes)],
        "readers": [
            {**each._asdict(), "memory_for": _by_share(advice.needed_by_reader[each.reader])} for each in advice.misses
        ],
    }


def _by_share(needed: Needed) -> dict[str, float | None]:
    return {f"{share:g}": memory_bytes for share, memory_bytes in needed}
