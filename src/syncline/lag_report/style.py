"""The style sheet of a page: the shared palette and page, and colours for memory and disk.

Each colour has one meaning on the whole page: blue is what the model says, red the memory of now, green what is
advised, orange what was measured. Lines differ in their dashes, too.
"""

from typing import Final

from syncline.pictures.page import PAGE_ROLES, PAGE_RULES
from syncline.pictures.palette import sheet

# Role: colour on light, on dark ground.
OWN: Final = {
    **PAGE_ROLES,
    "curve": ("#0b4f8a", "#7cbcf0"),
    "curve-soft": ("#c3dcef", "#23486a"),
    "now": ("#b3261e", "#ff8f86"),
    "advised": ("#00755a", "#3fcf9f"),
    "measured": ("#b4510a", "#f0a35a"),
}

_RULES: Final = """
.scroll{overflow-x:auto} td.number,th.number{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.readers{margin:14px 0 0} .readers td:first-child{min-width:8em} .readers td,.message{overflow-wrap:anywhere}
.agreed li{padding:6px 0;border-top:1px solid var(--grid)}
.picture.both .narrow svg{max-width:520px}
svg .panel{fill:none;stroke:var(--edge);stroke-width:1}
svg .curve-area{fill:var(--curve-soft);stroke:none} svg .curve-line{stroke:var(--curve);stroke-width:2}
svg .plain-line{stroke:var(--curve);stroke-width:1.4;stroke-dasharray:2 3;stroke-linecap:round}
svg .now-line{stroke:var(--now);stroke-width:2} svg .now-label{fill:var(--now);font-weight:650}
svg .advised-line{stroke:var(--advised);stroke-width:2;stroke-dasharray:7 4}
svg .advised-label{fill:var(--advised);font-weight:650}
svg .measured-dot{fill:var(--measured);stroke:var(--card);stroke-width:1.5}
"""

STYLE: Final = sheet(OWN, PAGE_RULES + _RULES)
