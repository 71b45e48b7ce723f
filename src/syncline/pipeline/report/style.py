"""The page's style sheet: the shared palette, and the report's own colours and rules.

Lines have Okabe and Ito's colours, delays run from blue to orange: people with any common kind of colour vision can
tell them apart.
"""

from typing import Final

from syncline.pictures.page import PAGE_ROLES, PAGE_RULES
from syncline.pictures.palette import sheet

# Role: colour on light, on dark ground.
OWN: Final = {
    **PAGE_ROLES,
    "handover": ("#1d2126", "#f3f1ec"),
    "limit": ("#b3261e", "#ff8f86"),
    # Counts: seven steps from few to many.
    "c0": ("#eef4f9", "#232d38"),
    "c1": ("#d3e4f1", "#26405a"),
    "c2": ("#aecde6", "#2a557d"),
    "c3": ("#7fb0d6", "#2f6ea4"),
    "c4": ("#4d8fc2", "#4b8fc8"),
    "c5": ("#246aa3", "#82b8e3"),
    "c6": ("#0b4578", "#c6e2f8"),
    "cbar": ("#7fa9cb", "#4b7ea9"),
    # Delays: seven steps from early (blue) to late (orange).
    "d0": ("#8cc0de", "#2f7ea6"),
    "d1": ("#ece9e2", "#343a42"),
    "d2": ("#fae0b5", "#54422a"),
    "d3": ("#f6c079", "#7d5522"),
    "d4": ("#ec9744", "#ad6d1f"),
    "d5": ("#cf6a1b", "#e0913c"),
    "d6": ("#92400b", "#ffcf99"),
    "dbar": ("#dfa467", "#a9763d"),
    # Lines, one for each follower.
    "s0": ("#0072b2", "#56b4e9"),
    "s1": ("#c4560a", "#f0913d"),
    "s2": ("#00805d", "#2fc796"),
    "s3": ("#9c4f80", "#e08fc0"),
    "s4": ("#7a6a00", "#d9c740"),
    "s5": ("#3b4cc0", "#9aa6ff"),
}

# Text on each heat map step, for light and dark pages: dark or light, whichever has more contrast.
CELL_TEXT: Final = (
    (("count0", "count1", "count2"), "#1d2126", "#e8e6e1"),
    (("count3",), "#1d2126", "#ffffff"),
    (("count4",), "#0c1116", "#0c1116"),
    (("count5", "count6"), "#ffffff", "#0c1116"),
    (("delay0", "delay1", "delay2", "delay3"), "#1d2126", "#ffffff"),
    (("delay4",), "#1d2126", "#0c1116"),
    (("delay5",), "#0c1116", "#0c1116"),
    (("delay6",), "#ffffff", "#0c1116"),
)


def _on(which: int) -> str:
    return "".join(
        "".join(f".on-{name}" + ("," if name != names[-1] else "") for name in names) + f"{{fill:{colours[which]}}}"
        for names, *colours in CELL_TEXT
    )


_RULES: Final = """
.checks{background:var(--card);border:1px solid var(--edge);border-radius:10px;padding:6px 16px;margin-bottom:46px}
.checks li{display:flex;gap:12px;padding:8px 0;border-top:1px solid var(--grid)}
.checks li:first-child{border-top:0}
.checks .mark{font-weight:700;width:1.2em;text-align:center}
.checks .good .mark{color:var(--good)} .checks .bad,.checks .bad .mark{color:var(--bad)}
svg .cell{font-size:9.5px;font-variant-numeric:tabular-nums;pointer-events:none}
svg .void{fill:var(--void)} svg .count-bar{fill:var(--cbar)} svg .delay-bar{fill:var(--dbar)}
svg .fault-band{fill:var(--fault-soft)} svg .fault-edge{stroke-dasharray:4 3} svg .fault-edge.soft{opacity:.6}
svg .fault-number{fill:var(--card);font-weight:700;font-size:11px}
svg .handover{stroke:var(--handover);stroke-width:1.8}
svg .handover-dot{fill:var(--card);stroke:var(--handover);stroke-width:2.2}
svg .limit{stroke:var(--limit);stroke-width:1.4;stroke-dasharray:2 4} svg .limit-label{fill:var(--limit);font-size:11px}
svg .series{stroke-width:2.4;stroke-linejoin:round;stroke-linecap:round} svg .faint{stroke-width:1;opacity:.28}
svg .dot{stroke:var(--card);stroke-width:1.5} svg .peak{font-weight:650}
"""


def _numbered() -> str:
    steps = "".join(f"svg .count{n}{{fill:var(--c{n})}} svg .delay{n}{{fill:var(--d{n})}}" for n in range(7))
    # Each line has its own dash pattern, so that lines differ without colour.
    dashes = ("none", "9 4", "2.5 4", "12 4 3 4", "5 5", "14 6")
    lines = "".join(
        f"svg path.series{n},svg line.series{n}{{stroke:var(--s{n})}} svg .series.series{n}{{stroke-dasharray:{dash}}}"
        f"svg .dot.series{n}{{fill:var(--s{n})}} svg .text-series{n}{{fill:var(--s{n})}}"
        for n, dash in enumerate(dashes)
    )
    return steps + lines


STYLE: Final = sheet(OWN, PAGE_RULES + _RULES + _numbered(), light=_on(0), dark=_on(1))
