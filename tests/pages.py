"""What every HTML page that Syncline makes must be: sound, complete in one file, and with words that can be read."""

import re
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from html.parser import HTMLParser
from itertools import combinations
from xml.etree import ElementTree as ET

VOID = {"meta", "br", "hr", "img", "link", "input"}


class _Balanced(HTMLParser):
    """Counts open tags, and collects whatever a page would load."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loads: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Open a tag."""
        self.loads += [f"{name}={value}" for name, value in attrs if name in {"src", "href", "data", "action"}]
        if tag in {"script", "iframe", "link", "img"}:
            self.loads.append(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Close the innermost tag, which must be this one."""
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Open and close a tag."""
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)


def check_page(page: str) -> None:
    """Assert that every tag closes, and that the page needs no script, font, picture or address."""
    parser = _Balanced()
    parser.feed(page)
    assert parser.open == []
    assert parser.loads == []
    assert set(re.findall(r"https?://[^\s\"<]+", page)) <= {"http://www.w3.org/2000/svg"}
    assert "@import" not in page
    assert not re.search(r"url\((?!#)", page)


def labels(root: ET.Element, bold: AbstractSet[str]) -> Iterator[tuple[str, float, float, float]]:
    """Yield each label of a drawing: its text, its estimated ends, and its baseline; `bold` are styles."""
    for element in root.iter("{http://www.w3.org/2000/svg}text"):
        styles = set(element.attrib.get("class", "").split())
        text, x = element.text or "", float(element.attrib["x"])
        length = len(text) * (6.0 if "tick" in styles else 6.8 if styles & bold else 6.2)
        left = x - length if "end-anchor" in styles else x - length / 2 if "mid" in styles else x
        yield text, left, left + length, float(element.attrib["y"])


def check_labels(root: ET.Element, bold: AbstractSet[str]) -> None:
    """Assert that every label of a drawing lies inside and touches no other."""
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    boxes = list(labels(root, bold))
    for text, left, right, baseline in boxes:
        assert left >= -1, text
        assert right <= width + 1, text
        assert 8 < baseline < height, text
    for one, other in combinations(boxes, 2):
        is_beside = one[2] <= other[1] or other[2] <= one[1]
        assert is_beside or abs(one[3] - other[3]) >= 9, f"{one} touches {other}"
