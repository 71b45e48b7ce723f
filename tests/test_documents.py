"""The documents against the code: what they name exists, and what is generated is up to date."""

import re
from pathlib import Path

import pytest

from tests import documents

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "syncline"
ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text()
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("docs/adr/*.md")])
# Written by measuring, and not by everybody who runs the tests.
MEASURED = {"performance.md"}


def test_architecture_names_every_package() -> None:
    """A new room or package must be given its line on the map."""
    packages = [path.parent.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("__init__.py")]
    missing = [name for name in packages if name != "." and not re.search(rf"`{name}[`/:]", ARCHITECTURE)]

    assert missing == []


def test_architecture_names_no_module_that_is_gone() -> None:
    """Every path in backticks is a file below src/syncline."""
    paths = set(re.findall(r"`([a-z_]+(?:/[a-z_0-9]+)*/[a-z_0-9]+\.py)`", ARCHITECTURE))

    assert len(paths) > 100
    assert [path for path in sorted(paths) if not (SOURCE / path).is_file()] == []


def test_architecture_names_no_function_that_is_gone() -> None:
    """Every `name()` is defined somewhere, and every `Class.name()` in a module that has the class."""
    sources = [path.read_text() for path in SOURCE.rglob("*.py")]
    wrong = []
    for owner, name in set(re.findall(r"`(?:(\w+)\.)?(\w+)\(\)`", ARCHITECTURE)):
        place = rf"^class {owner}\b" if owner[:1].isupper() else ""
        if not any(re.search(rf"\bdef {name}\(", text) and re.search(place, text, re.M) for text in sources):
            wrong.append(f"{owner}.{name}")

    assert wrong == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_between_documents_lead_somewhere(page: Path) -> None:
    """No page points to a file that is not there."""
    targets = re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text())
    gone = [target for target in targets if not (page.parent / target).exists() and Path(target).name not in MEASURED]

    assert gone == []


def test_every_document_is_in_the_index() -> None:
    """docs/README.md leads to each page of docs/."""
    index = (ROOT / "docs" / "README.md").read_text()
    pages = [path.name for path in ROOT.glob("docs/*.md") if path.name != "README.md"]

    assert [name for name in pages if f"({name})" not in index] == []


@pytest.mark.parametrize("page", documents.GENERATED, ids=lambda page: page.name)
def test_generated_documents_are_up_to_date(page: documents.Page) -> None:
    """`python -m tests.documents` writes them; run it and look at what changed."""
    assert page.text() == (ROOT / "docs" / page.name).read_text()
