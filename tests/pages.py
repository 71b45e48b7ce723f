"""What every HTML page that Syncline makes must be: sound, and complete in one file."""

import re
from html.parser import HTMLParser

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
