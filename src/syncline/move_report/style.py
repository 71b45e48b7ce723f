"""The style sheet of a report: the shared palette and page, and colours for what the move did.

Each colour has one meaning on the whole page: blue is what the move copies, red its throttle, orange what only keeps up
with writes, grey what held it back, green what clients feel. Lines differ in their dashes, too.
"""

from typing import Final

from syncline.pictures.page import PAGE_ROLES, PAGE_RULES
from syncline.pictures.palette import sheet

# Role: colour on light, on dark ground.
OWN: Final = {
    **PAGE_ROLES,
    "copied": ("#0b4f8a", "#7cbcf0"),
    "copied-soft": ("#c3dcef", "#23486a"),
    "throttle": ("#b3261e", "#ff8f86"),
    "keep-up": ("#b4510a", "#f0a35a"),
    "waits": ("#00755a", "#3fcf9f"),
    "held": ("#5c6570", "#a0a8b2"),
    "held-soft": ("rgba(92,101,112,.14)", "rgba(160,168,178,.15)"),
    "mark": ("#6b7480", "#8d96a1"),
}

_RULES: Final = """
.held{margin:14px 0 0;padding:0;list-style:none}
.held li{display:flex;gap:10px;padding:6px 0;border-top:1px solid var(--grid);font-size:15px}
.held .dot{flex:none;width:22px;height:22px;border-radius:50%;background:var(--held);color:var(--card);
font-size:13px;font-weight:700;display:grid;place-items:center;margin-top:1px}
.held time{flex:none;color:var(--muted);font-variant-numeric:tabular-nums}
.scroll{overflow-x:auto} td.number,th.number{text-align:right;font-variant-numeric:tabular-nums}
.picture.both .narrow svg{max-width:520px}
@media(max-width:759px){.held li{flex-wrap:wrap}.held li span:last-child{flex-basis:100%}}
svg .ground{fill:var(--card)} svg .panel{fill:none;stroke:var(--edge);stroke-width:1}
svg .copied-area{fill:var(--copied-soft);stroke:none} svg .copied-line{stroke:var(--copied);stroke-width:1.8}
svg .throttle{stroke:var(--throttle);stroke-width:2;stroke-dasharray:7 4}
svg .throttle-label{fill:var(--throttle);font-weight:650;font-size:11.5px}
svg .keep-up{stroke:var(--keep-up);stroke-width:1.8;stroke-dasharray:2 3;stroke-linecap:round}
svg .keep-up-label{fill:var(--keep-up);font-weight:650;font-size:11.5px}
svg .held-band{fill:var(--held-soft)} svg .held-dot{fill:var(--held)}
svg .held-number{fill:var(--card);font-weight:700;font-size:11px}
svg .mark-line{stroke:var(--mark);stroke-width:1;stroke-dasharray:3 3} svg .mark-label{fill:var(--ink);font-weight:600}
svg .joined-line{stroke:var(--good);stroke-width:2} svg .joined-dot{fill:var(--good)}
svg .joined-label{fill:var(--good);font-weight:650}
svg .p99{stroke:var(--waits);stroke-width:2.2;stroke-linejoin:round}
svg .p50{stroke:var(--waits);stroke-width:1.4;stroke-dasharray:2 3;stroke-linecap:round}
svg .longest{fill:var(--waits);opacity:.55} svg .peak{fill:var(--waits);font-weight:650}
"""

STYLE: Final = sheet(OWN, PAGE_RULES + _RULES)
