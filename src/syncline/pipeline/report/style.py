"""The page's style sheet: the only place where the report's colours and type are chosen."""

from typing import Final

_LIGHT: Final = """
--page:#f6f5f1; --card:#ffffff; --ink:#1d2126; --muted:#5c6570; --grid:#e3e1da; --edge:#dedbd3;
--good:#0b6b4f; --bad:#b3261e; --accent:#0b4f8a;
--void:#f1efe9;
--c0:#eef4f9; --c1:#d3e4f1; --c2:#aecde6; --c3:#7fb0d6; --c4:#4d8fc2; --c5:#246aa3; --c6:#0b4578; --cbar:#7fa9cb;
--d0:#8cc0de; --d1:#ece9e2; --d2:#fae0b5; --d3:#f6c079; --d4:#ec9744; --d5:#cf6a1b; --d6:#92400b; --dbar:#dfa467;
--dark-on:#1d2126; --light-on:#ffffff;
--leader:#0b4f8a; --sync:#9fc7e6; --out:#fdeee2; --out-line:#d4691e; --handover:#1d2126;
--fault:#8a5a9b; --fault-soft:rgba(138,90,155,.13); --limit:#b3261e;
--s0:#0072b2; --s1:#c4560a; --s2:#00805d; --s3:#9c4f80; --s4:#7a6a00; --s5:#3b4cc0;
"""
_DARK: Final = """
--page:#14171b; --card:#1c2026; --ink:#e8e6e1; --muted:#a0a8b2; --grid:#2e343c; --edge:#2b3038;
--good:#5fd0a5; --bad:#ff8f86; --accent:#7cbcf0;
--void:#22272e;
--c0:#232d38; --c1:#26405a; --c2:#2a557d; --c3:#2f6ea4; --c4:#4b8fc8; --c5:#82b8e3; --c6:#c6e2f8; --cbar:#4b7ea9;
--d0:#2f7ea6; --d1:#343a42; --d2:#54422a; --d3:#7d5522; --d4:#ad6d1f; --d5:#e0913c; --d6:#ffcf99; --dbar:#a9763d;
--leader:#5aa9e6; --sync:#2f5878; --out:#3a2a1e; --out-line:#f0913d; --handover:#f3f1ec;
--fault:#cfa3dd; --fault-soft:rgba(190,140,210,.16); --limit:#ff8f86;
--s0:#56b4e9; --s1:#f0913d; --s2:#2fc796; --s3:#e08fc0; --s4:#d9c740; --s5:#9aa6ff;
"""

# Text on each heat map step: dark or light, whichever has the larger contrast, for light and dark pages.
_ON: Final = (
    (("count0", "count1", "count2", "count3"), "#1d2126", "#e8e6e1"),
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
        for names, *colours in _ON
    )


_RULES: Final = """
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,
"Helvetica Neue",Arial,"DejaVu Sans",sans-serif;-webkit-font-smoothing:antialiased}
main{max-width:1340px;margin:0 auto;padding:44px 28px 60px}
code{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;font-size:.9em}
.eyebrow{margin:0;color:var(--muted);font-size:14px;letter-spacing:.02em}
h1{margin:10px 0 12px;font-size:34px;line-height:1.2;letter-spacing:-.015em;max-width:30em;text-wrap:balance}
h1.bad{color:var(--bad)}
.lead{margin:0;max-width:58em;color:var(--muted);font-size:17px}
ul{list-style:none;margin:0;padding:0}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(165px,1fr));gap:12px;margin:30px 0 14px}
.cards li{background:var(--card);border:1px solid var(--edge);border-radius:10px;padding:14px 16px}
.cards b{display:block;font-size:25px;font-weight:650;letter-spacing:-.01em;font-variant-numeric:tabular-nums}
.cards span{color:var(--muted);font-size:14px}
.checks{background:var(--card);border:1px solid var(--edge);border-radius:10px;padding:6px 16px;margin-bottom:46px}
.checks li{display:flex;gap:12px;padding:8px 0;border-top:1px solid var(--grid)}
.checks li:first-child{border-top:0}
.checks .mark{font-weight:700;width:1.2em;text-align:center}
.checks .good .mark{color:var(--good)} .checks .bad,.checks .bad .mark{color:var(--bad)}
section{margin:0 0 52px}
h2{margin:0 0 4px;font-size:22px;letter-spacing:-.01em;display:flex;align-items:center;gap:12px}
h2 .number{flex:none;width:30px;height:30px;border-radius:50%;background:var(--accent);color:var(--card);
font-size:16px;display:grid;place-items:center}
.message{margin:0 0 16px;max-width:70em;font-size:17px}
figure{margin:0;background:var(--card);border:1px solid var(--edge);border-radius:12px;padding:20px 20px 14px}
.picture{overflow-x:auto}
.picture svg{display:block;min-width:980px;width:100%;height:auto}
figcaption{margin-top:12px;padding-top:12px;border-top:1px solid var(--grid);color:var(--muted);
font-size:14px;max-width:90em}
details{background:var(--card);border:1px solid var(--edge);border-radius:10px;padding:12px 18px;margin-bottom:40px}
summary{cursor:pointer;font-weight:600}
table{width:100%;border-collapse:collapse;margin-top:12px;font-size:14px}
th{text-align:left;color:var(--muted);font-weight:600}
th,td{padding:5px 12px 5px 0;border-bottom:1px solid var(--grid);vertical-align:top}
td:first-child{font-variant-numeric:tabular-nums} td code{word-break:break-word}
footer{color:var(--muted);font-size:14px}
svg text{font-size:12px;fill:var(--ink)}
svg .muted{fill:var(--muted)} svg .tick{fill:var(--muted);font-size:11px;font-variant-numeric:tabular-nums}
svg .tiny{font-size:9.5px} svg .mid{text-anchor:middle}
svg .mono{font-family:ui-monospace,Menlo,"DejaVu Sans Mono",monospace;font-size:11px}
svg .strong{font-weight:650} svg .heading{font-weight:650;font-size:14px}
svg .halo{paint-order:stroke;stroke:var(--card);stroke-width:4px;stroke-linejoin:round}
svg .grid{stroke:var(--grid);stroke-width:1}
svg .cell{font-size:9.5px;font-variant-numeric:tabular-nums;pointer-events:none}
svg .void{fill:var(--void)} svg .count-bar{fill:var(--cbar)} svg .delay-bar{fill:var(--dbar)}
svg .fault-band{fill:var(--fault-soft)} svg .fault-edge{stroke:var(--fault);stroke-width:1.4;stroke-dasharray:4 3}
svg .fault-edge.soft{opacity:.6} svg .fault-dot{fill:var(--fault)}
svg .fault-number{fill:var(--card);font-weight:700;font-size:11px} svg .fault-label{fill:var(--fault);font-weight:650}
svg .lane-leader{fill:var(--leader)} svg .lane-in-sync{fill:var(--sync)}
svg .lane-out{fill:url(#hatch);stroke:var(--out-line);stroke-width:1.2}
svg .hatch-ground{fill:var(--out)} svg .hatch-line{stroke:var(--out-line);stroke-width:2.6}
svg .on-leader{fill:var(--card);font-size:10.5px;font-weight:600;pointer-events:none}
svg .handover{stroke:var(--handover);stroke-width:1.8}
svg .handover-dot{fill:var(--card);stroke:var(--handover);stroke-width:2.2}
svg .limit{stroke:var(--limit);stroke-width:1.4;stroke-dasharray:2 4} svg .limit-label{fill:var(--limit);font-size:11px}
svg .series{stroke-width:2.4;stroke-linejoin:round;stroke-linecap:round} svg .faint{stroke-width:1;opacity:.28}
svg .dot{stroke:var(--card);stroke-width:1.5} svg .peak{font-weight:650}
@media print{body{background:#fff} section{break-inside:avoid}}
"""


def _numbered() -> str:
    steps = "".join(f"svg .count{n}{{fill:var(--c{n})}} svg .delay{n}{{fill:var(--d{n})}}" for n in range(7))
    # A dash of its own for each line, so that they stay apart without colour.
    dashes = ("none", "9 4", "2.5 4", "12 4 3 4", "5 5", "14 6")
    lines = "".join(
        f"svg path.series{n},svg line.series{n}{{stroke:var(--s{n})}} svg .series.series{n}{{stroke-dasharray:{dash}}}"
        f"svg .dot.series{n}{{fill:var(--s{n})}} svg .text-series{n}{{fill:var(--s{n})}}"
        for n, dash in enumerate(dashes)
    )
    return steps + lines


STYLE: Final = (
    f":root{{color-scheme:light dark;{_LIGHT}}}{_RULES}{_numbered()}{_on(0)}"
    f"@media (prefers-color-scheme:dark){{:root{{{_DARK}}}{_on(1)}}}"
)
