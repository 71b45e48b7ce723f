"""Pages that show pictures: one self-contained HTML file, without a script, font or picture from elsewhere.

A page has a head, cards with numbers, and figures: a message in words, the drawing that proves it, and a note how to
read it. A drawing that is made for one width may be shown at two: `figure` takes a wide one, which scrolls on a small
screen, or that and a narrow one, of which the page shows what fits.
"""

from collections.abc import Sequence
from html import escape
from typing import Final

# Role: colour on light, on dark ground.
PAGE_ROLES: Final = {
    "page": ("#f6f5f1", "#14171b"),
    "edge": ("#dedbd3", "#2b3038"),
    "accent": ("#0b4f8a", "#7cbcf0"),
}

# From this width of the page on, the wide drawing is shown.
WIDE_PX: Final = 760

PAGE_RULES: Final = (
    """
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:16px/1.55 var(--sans);-webkit-font-smoothing:antialiased}
main{max-width:1340px;margin:0 auto;padding:44px 28px 60px}
code{font-family:var(--mono);font-size:.9em;overflow-wrap:anywhere}
.eyebrow{margin:0;color:var(--muted);font-size:14px;letter-spacing:.02em}
h1{margin:10px 0 12px;font-size:34px;line-height:1.2;letter-spacing:-.015em;max-width:30em;text-wrap:balance}
h1.bad{color:var(--bad)}
.lead{margin:0;max-width:58em;color:var(--muted);font-size:17px}
ul{list-style:none;margin:0;padding:0}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(165px,1fr));gap:12px;margin:30px 0 14px}
.cards li{background:var(--card);border:1px solid var(--edge);border-radius:10px;padding:14px 16px}
.cards b{display:block;font-size:25px;font-weight:650;letter-spacing:-.01em;font-variant-numeric:tabular-nums}
.cards span{color:var(--muted);font-size:14px}
section{margin:0 0 52px}
h2{margin:0 0 4px;font-size:22px;letter-spacing:-.01em;display:flex;align-items:center;gap:12px}
h2 .number{flex:none;width:30px;height:30px;border-radius:50%;background:var(--accent);color:var(--card);
font-size:16px;display:grid;place-items:center}
.message{margin:0 0 16px;max-width:70em;font-size:17px}
figure{margin:0;background:var(--card);border:1px solid var(--edge);border-radius:12px;padding:20px 20px 14px}
.picture{overflow-x:auto}
.picture svg{display:block;min-width:980px;width:100%;height:auto}
.picture .narrow{display:none}
figcaption{margin-top:12px;padding-top:12px;border-top:1px solid var(--grid);color:var(--muted);
font-size:14px;max-width:90em}
details{background:var(--card);border:1px solid var(--edge);border-radius:10px;padding:12px 18px;margin-bottom:40px}
summary{cursor:pointer;font-weight:600}
table{width:100%;border-collapse:collapse;margin-top:12px;font-size:14px}
th{text-align:left;color:var(--muted);font-weight:600}
th,td{padding:5px 12px 5px 0;border-bottom:1px solid var(--grid);vertical-align:top}
td:first-child{font-variant-numeric:tabular-nums} td code{word-break:break-word}
footer{color:var(--muted);font-size:14px}
@media print{body{background:#fff} section{break-inside:avoid}}
"""
    f"@media(max-width:{WIDE_PX - 1}px){{main{{padding:28px 14px 40px}}h1{{font-size:26px}}figure{{padding:14px 12px}}"
    ".cards{grid-template-columns:repeat(auto-fit,minmax(140px,1fr))}.cards b{font-size:21px}"
    ".picture.both .wide{display:none}.picture.both .narrow{display:block}.picture.both svg{min-width:0}}"
)


def document(title: str, style: str, *parts: str) -> str:
    """Return a whole page; `parts` are markup already."""
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title>",
            f"<style>{style}</style></head><body><main>",
            *parts,
            "</main></body></html>",
            "",
        ]
    )


def cards(numbers: Sequence[tuple[str, str]]) -> str:
    """Return a row of cards: each a number, and what it counts."""
    body = "".join(f"<li><b>{escape(number)}</b><span>{escape(name)}</span></li>" for number, name in numbers)
    return f'<ul class="cards">{body}</ul>'


def figure(number: str, title: str, message: str, drawing: str, note: str, *, narrow: str = "") -> str:
    """Return a section with one figure; `narrow` is the same drawing for small screens."""
    picture = f'<div class="picture">{drawing}</div>'
    if narrow:
        both = f'<div class="wide">{drawing}</div><div class="narrow">{narrow}</div>'
        picture = f'<div class="picture both">{both}</div>'
    return (
        f'<section><h2><span class="number">{number}</span>{escape(title)}</h2><p class="message">{escape(message)}</p>'
        f"<figure>{picture}<figcaption>{escape(note)}</figcaption></figure></section>"
    )
