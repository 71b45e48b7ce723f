"""Colours and type that all pictures share, for light and dark surroundings.

A drawing names roles ("out of the ISR"), and the style sheet gives each role its colour, so that the report and the
lab show the same thing in the same way. No meaning depends on colour alone: "out of the ISR" is hatched, too.
Text on coloured ground has a contrast of at least 4.5 to 1 (WCAG 2, AA).

A picture's own colours go into `sheet()` beside the shared ones.
"""

from collections.abc import Mapping
from typing import Final

from syncline.pictures import svg

_SANS: Final = 'system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,"DejaVu Sans",sans-serif'
_MONO: Final = 'ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace'

# Role: colour on light, on dark ground. `card` is the ground of a drawing.
ROLES: Final[Mapping[str, tuple[str, str]]] = {
    "card": ("#ffffff", "#1c2026"),
    "ink": ("#1d2126", "#e8e6e1"),
    "muted": ("#5c6570", "#a0a8b2"),
    "grid": ("#e3e1da", "#2e343c"),
    "void": ("#f3f1ec", "#22272e"),
    "good": ("#0b6b4f", "#5fd0a5"),
    "bad": ("#b3261e", "#ff8f86"),
    "lead": ("#0b4f8a", "#5aa9e6"),
    "sync": ("#9fc7e6", "#2f5878"),
    "out": ("#fdeee2", "#3a2a1e"),
    "out-line": ("#d4691e", "#f0913d"),
    "fault": ("#7d4c90", "#cfa3dd"),
    "fault-soft": ("rgba(125,76,144,.13)", "rgba(190,140,210,.16)"),
}

_RULES: Final = """
svg{font-family:var(--sans)} svg text{font-size:12px;fill:var(--ink)}
svg .muted{fill:var(--muted)} svg .strong{font-weight:650} svg .heading{font-weight:650;font-size:14px}
svg .tick{fill:var(--muted);font-size:11px;font-variant-numeric:tabular-nums} svg .tiny{font-size:9.5px}
svg .mono{font-family:var(--mono);font-size:11px}
svg .mid{text-anchor:middle} svg .end-anchor{text-anchor:end}
svg .halo{paint-order:stroke;stroke:var(--card);stroke-width:4px;stroke-linejoin:round}
svg .grid{stroke:var(--grid);stroke-width:1}
svg .leads{fill:var(--lead)} svg .in-sync{fill:var(--sync)}
svg .out{fill:url(#out);stroke:var(--out-line);stroke-width:1.2}
svg .out-ground{fill:var(--out)} svg .out-stripe{stroke:var(--out-line);stroke-width:2.4}
svg .on-lead{fill:var(--card);font-size:10.5px;font-weight:600;pointer-events:none}
svg .fault-line{stroke:var(--fault);stroke-width:1.4} svg .fault-dot{fill:var(--fault)}
svg .fault-label{fill:var(--fault);font-weight:650}
"""

# The fill pattern of "out of the ISR"; a drawing that uses it has it among its definitions.
HATCHING: Final = svg.pattern(
    "out", 7, svg.rect(0, 0, 7, 7, class_="out-ground"), svg.line(0, 0, 0, 7, class_="out-stripe"), turned=True
)


def sheet(own: Mapping[str, tuple[str, str]], rules: str, *, light: str = "", dark: str = "") -> str:
    """Return a style sheet with the shared colours and rules, those of one picture, and rules for one ground alone."""
    roles = {**ROLES, **own}
    on_light = "".join(f"--{name}:{colours[0]};" for name, colours in roles.items())
    on_dark = "".join(f"--{name}:{colours[1]};" for name, colours in roles.items())
    return (
        f":root{{color-scheme:light dark;--sans:{_SANS};--mono:{_MONO};{on_light}}}{_RULES}{rules}{light}"
        f"@media (prefers-color-scheme:dark){{:root{{{on_dark}}}{dark}}}"
    )
