"""SVG as text: just enough to draw with, everything escaped.

Drawings hold no colours: shapes carry class names and a style sheet (`palette.py`) gives them colours, so that one
drawing suits a light and a dark page. Lengths are pixels of the drawing's own `viewBox`.
"""

from collections.abc import Iterable
from html import escape


def element(tag: str, *children: str, **attributes: object) -> str:
    """Return an element; `class_` and `text_anchor` become `class` and `text-anchor`; children are already markup."""
    written = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escape(_text(value), quote=True)}"'
        for name, value in attributes.items()
        if value is not None
    )
    return f"<{tag}{written}>{''.join(children)}</{tag}>" if children else f"<{tag}{written}/>"


def text(x: float, y: float, content: str, **attributes: object) -> str:
    """Return a line of text with its baseline at `y`."""
    return element("text", escape(content), x=x, y=y, **attributes)


def tip(content: str) -> str:
    """Return the tooltip of a shape."""
    return element("title", escape(content))


def line(x1: float, y1: float, x2: float, y2: float, **attributes: object) -> str:
    """Return a straight line."""
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, **attributes)


def rect(x: float, y: float, width: float, height: float, *children: str, **attributes: object) -> str:
    """Return a rectangle."""
    return element("rect", *children, x=x, y=y, width=max(width, 0.0), height=height, **attributes)


def path(points: Iterable[tuple[float, float]], **attributes: object) -> str:
    """Return a line through the points."""
    return element("path", d="M" + "L".join(f"{_text(x)},{_text(y)}" for x, y in points), fill="none", **attributes)


def pattern(name: str, size: float, *shapes: str, turned: bool = False) -> str:
    """Return the definition of a fill pattern, used as `fill:url(#name)`; `turned` by 45 degrees."""
    turn = "rotate(45)" if turned else None
    return element(
        "pattern", *shapes, id=name, width=size, height=size, patternUnits="userSpaceOnUse", patternTransform=turn
    )


def drawing(width: float, height: float, label: str, *children: str) -> str:
    """Return a whole drawing that fills the page's width; screen readers read `label`."""
    return element(
        "svg",
        *children,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {_text(width)} {_text(height)}",
        role="img",
        aria_label=label,
    )


def _text(value: object) -> str:
    """Return a number with at most two decimals: more would only make the page larger."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
