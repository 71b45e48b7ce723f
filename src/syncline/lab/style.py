"""The style sheet and the fill patterns of the lab's pictures, on top of the shared palette."""

from typing import Final

from syncline.pictures import svg
from syncline.pictures.palette import HATCHING, sheet

# Epochs take these colours in turn.
EPOCH_COLOURS: Final = (
    ("#d3e4f1", "#26405a"),
    ("#f6d9b0", "#5c4522"),
    ("#cfe8d8", "#244a3a"),
    ("#ecd3e6", "#4d3049"),
    ("#f3eaa9", "#4f4a1c"),
    ("#d6d6f2", "#35356a"),
)
OWN: Final = {
    "edge": ("#c9c5bb", "#454c56"),
    "log-end": ("#12344d", "#d9ecfb"),
    "watermark": ("#b3261e", "#ff8f86"),
    "dead": ("#8a8577", "#7a828c"),
    **{f"epoch{number}": colours for number, colours in enumerate(EPOCH_COLOURS)},
}
_RULES: Final = """
.page{fill:var(--card)} svg .title{font-size:20px;font-weight:650}
svg .good{fill:var(--good);font-weight:650} svg .bad{fill:var(--bad);font-weight:650}
.lane{fill:var(--void);stroke:var(--edge)} .step{stroke:var(--edge);stroke-dasharray:2 4}
.step-dot{fill:var(--ink)} svg .step-number{fill:var(--card);font-weight:700;font-size:11px}
.log-end{stroke:var(--log-end);stroke-width:2.6;stroke-linejoin:round}
.watermark{stroke:var(--watermark);stroke-width:2.2;stroke-dasharray:6 4}
.dead-stripe{stroke:var(--dead);stroke-width:1.6} .paused-dot{fill:var(--dead)}
.dead{fill:url(#dead)} .paused{fill:url(#paused)}
svg .value{font-family:var(--mono)} svg .epoch-label{font-size:11px} svg .fault-label{font-size:11.5px}
""" + "".join(f".epoch{number}{{fill:var(--epoch{number})}}" for number in range(len(EPOCH_COLOURS)))

STYLE: Final = svg.element("style", sheet(OWN, _RULES))
PATTERNS: Final = svg.element(
    "defs",
    HATCHING,
    svg.pattern("dead", 8, svg.line(0, 0, 0, 8, class_="dead-stripe"), turned=True),
    svg.pattern("paused", 7, svg.element("circle", cx=3, cy=3, r=1.1, class_="paused-dot")),
)
