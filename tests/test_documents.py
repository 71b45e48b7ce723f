"""The documents against the code: what they name exists, and what is generated is up to date."""

import json
import re
from dataclasses import fields
from pathlib import Path
from typing import get_args

import pytest

from syncline.explain.diagnosis.findings import Cause, Effect
from syncline.model import events
from syncline.model.broker_config import BROKER_CONFIGS, BrokerConfig
from syncline.model.config_types import ConfigDefinition
from syncline.model.reasons import Reason
from syncline.model.topic_config import TOPIC_CONFIGS, TopicConfig
from syncline.node.metrics.families import FAMILIES
from syncline.wire.api import CLIENT_VERSIONS
from tests import documents
from tests.cli.test_help import COMMANDS
from tests.dashboards import DASHBOARDS, Dashboard

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "syncline"
ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text()
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("docs/adr/*.md")])
JOURNAL = (ROOT / "docs" / "journal.md").read_text()
ENVELOPE = JOURNAL.partition("## Every event")[2].partition("### ")[0]
PROPERTIES = (ROOT / "docs" / "properties.md").read_text()
SLOW_LEADERS = (ROOT / "docs" / "slow-leaders.md").read_text()
SCENARIOS = (ROOT / "docs" / "scenarios.md").read_text()
# The page of scenarios is compared by its numbers and names: a new test of a scenario need not be on it at once.
EXACT = [page for page in documents.GENERATED if page.name != "scenarios.md"]
# Nothing reads them, since there is one value so far; the rack goes from the command line to the registration;
# `compression.type` and its like are explained rather than obeyed; the last is written with another one's interval.
HAVE_ONE_VALUE = {
    "broker.rack",
    "compression.type",
    "log.flush.start.offset.checkpoint.interval.ms",
}


def test_architecture_names_every_module() -> None:
    """A new module is given its line on the map; the handlers of `node/api` are named by their keys."""
    named, package = set[str](), ""
    for line in ARCHITECTURE.splitlines():
        found = re.match(r"^\| (?:`([a-z_/]+/)`)?", line)
        package = (found[1] or (package if line.startswith("| |") else "")) if found else ""
        named |= {*re.findall(r"`([a-z_0-9/]+/[a-z_0-9]+\.py)`", line)}
        named |= {package + name for name in re.findall(r"`([a-z_0-9]+\.py)`", line) if package}
    modules = {path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py") if not path.name.startswith("__")}

    assert sorted(path for path in modules - named if not path.startswith("node/api/api_")) == []


def test_the_root_has_no_archives() -> None:
    """Guards: wheels of other projects, 8 MB, which had been downloaded there, became part of a change."""
    archives = {".whl", ".gz", ".zip", ".jar"}

    assert sorted(each.name for each in ROOT.iterdir() if each.suffix in archives) == []


def test_architecture_has_one_row_for_each_part() -> None:
    """Two changes of one row, put together line by line, leave both."""
    parts = re.findall(r"^\| (`[^|]+?) \|", ARCHITECTURE, flags=re.MULTILINE)

    assert [part for part in set(parts) if parts.count(part) > 1] == []


def test_architecture_names_no_module_that_is_gone() -> None:
    """Every path in backticks is a file below src/syncline, or a test."""
    paths = set(re.findall(r"`([a-z_]+(?:/[a-z_0-9]+)*/[a-z_0-9]+\.py)`", ARCHITECTURE))

    assert len(paths) > 100
    assert [path for path in sorted(paths) if not ((SOURCE / path).is_file() or (ROOT / path).is_file())] == []


def test_architecture_names_no_function_that_is_gone() -> None:
    """Every `name()` is defined somewhere, and every `Class.name()` in a module that has the class."""
    # What each module defines: functions, and classes at its top.
    defined = [
        (set(re.findall(r"\bdef (\w+)\(", text)), set(re.findall(r"^class (\w+)", text, re.MULTILINE)))
        for text in (path.read_text() for path in SOURCE.rglob("*.py"))
    ]
    wrong = []
    for owner, name in set(re.findall(r"`(?:(\w+)\.)?(\w+)\(\)`", ARCHITECTURE)):
        has_class = owner[:1].isupper()
        if not any(name in functions and (owner in classes or not has_class) for functions, classes in defined):
            wrong.append(f"{owner}.{name}")

    assert wrong == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_between_documents_lead_somewhere(page: Path) -> None:
    """No page points to a file that is not there."""
    targets = re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text())
    gone = [target for target in targets if not (page.parent / target).exists()]

    assert gone == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_page_names_no_module_that_is_gone(page: Path) -> None:
    """A path in backticks is below the repository, the sources or, on the page of scenarios, the tests."""
    paths = set(re.findall(r"`((?:[a-z_0-9]+/)+[a-z_0-9]+\.py)`", page.read_text()))
    places = (ROOT, ROOT / "src", SOURCE, ROOT / "tests")

    assert [path for path in sorted(paths) if not any((place / path).is_file() for place in places)] == []


def test_every_document_is_in_the_index() -> None:
    """docs/README.md leads to each page of docs/."""
    index = (ROOT / "docs" / "README.md").read_text()
    pages = [path.name for path in ROOT.glob("docs/*.md") if path.name != "README.md"]

    assert [name for name in pages if f"({name})" not in index] == []


def test_pages_count_right() -> None:
    """What README counts, and the list of golden traces."""
    readme, traces = (ROOT / "README.md").read_text(), (ROOT / "docs" / "traces.md").read_text()

    assert f"| {len(CLIENT_VERSIONS)} APIs: " in readme
    assert f"distinguishes {len(Cause) - 1} causes" in readme, "all but the unknown one"
    assert [path.name for path in ROOT.glob("tests/core/traces/*.txt") if f"/{path.name})" not in traces] == []


def test_readme_has_every_command() -> None:
    """Those of `syncline --help`, and no other."""
    table = (ROOT / "README.md").read_text().partition("## Commands")[2].partition("\n## ")[0]
    cells = re.findall(r"^\| (`[^|]+) \|", table, re.MULTILINE)
    named = {name.removeprefix("syncline ").split()[0] for cell in cells for name in re.findall(r"`([^`]+)`", cell)}

    assert named == COMMANDS[()]


@pytest.mark.parametrize("page", EXACT, ids=lambda page: page.name)
def test_generated_pages_are_up_to_date(page: documents.Page) -> None:
    """`python -m tests.documents` writes them; run it and look at what changed."""
    assert page.text() == (ROOT / "docs" / page.name).read_text()


def test_metrics_page_has_every_metric() -> None:
    """The page is generated from the same table, row by row."""
    page = (ROOT / "docs" / "metrics.md").read_text()

    assert [family.name for family in FAMILIES if f"| `{family.name}`" not in page] == []


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda dashboard: dashboard.title)
def test_panels_said_to_work_find_their_metrics(dashboard: Dashboard) -> None:
    """A metric that is renamed leaves a panel empty."""
    there = {family.name for family in FAMILIES}
    empty = {panel: metrics for panel, metrics in dashboard.panels.items() if not set(metrics.split()) <= there}

    assert empty == {}
    assert len(dashboard.panels) > 10


@pytest.mark.parametrize(("config", "table"), [(BrokerConfig, BROKER_CONFIGS), (TopicConfig, TOPIC_CONFIGS)])
def test_configurations_have_the_effect_that_their_documentation_claims(
    config: type, table: dict[str, ConfigDefinition]
) -> None:
    """A configuration that no code reads is documented as such, and no other one is."""
    shell = "\n".join(path.read_text() for path in SOURCE.rglob("*.py") if "model" not in path.parts)
    wrong = []
    for field in fields(config):
        name = field.name.replace("_", ".")
        if name in HAVE_ONE_VALUE or name not in table or table[name].hidden:
            continue
        heirs = [topic for topic in TOPIC_CONFIGS.values() if config is BrokerConfig and name in topic.synonyms]
        is_read = f".{field.name}" in shell or any(each.documentation not in documents.NO_EFFECT for each in heirs)
        if is_read == (table[name].documentation in documents.NO_EFFECT):
            wrong.append(name)

    assert wrong == []


def test_scenarios_have_one_row_each() -> None:
    """All 239, and those of consumer lag so far: in order, those that wait for a feature behind the others."""
    shown, _, apart = SCENARIOS.partition("## Waiting for a feature")
    rows, waiting = (re.findall(r"^\| ([A-HLT]\d\d) \|", text, re.MULTILINE) for text in (shown, apart))

    assert documents.numbers() == sorted([*rows, *waiting])
    assert rows == sorted(rows)
    assert len(rows) + len(waiting) == 180 + 59 + len([number for number in documents.numbers() if number[0] == "L"])
    assert [group.letter for group in documents.GROUPS if not group.is_complete] == ["L"]


def test_scenarios_without_a_test_say_why() -> None:
    """Every missing test is listed, no listed one exists, and few are missing."""
    unshown = set(documents.numbers()) - documents.scenario_tests().keys()

    assert sorted(unshown) == sorted({**documents.WAITING, **documents.MISSING})
    assert len(documents.MISSING) <= documents.MISSING_MAX
    divergences = (ROOT / "docs" / "divergences.md").read_text()
    assert [number for number in documents.MISSING if number not in divergences] == []


def test_enough_scenarios_of_throttles_are_shown_on_processes() -> None:
    """Virtual time proves the numbers, processes that the world is as virtual time has it."""
    assert len(documents.on_processes()) >= 12


def test_divergences_say_how_to_do_without_the_new_consumer_protocol() -> None:
    """Guards: "consumers of both kinds negotiate down". librdkafka waits in silence for what is not advertised."""
    consumer_group_heartbeat = 68
    page = (ROOT / "docs" / "divergences.md").read_text()
    (row,) = [line for line in page.splitlines() if "(KIP-848)" in line and line.startswith("| the new consumer")]

    assert consumer_group_heartbeat not in CLIENT_VERSIONS
    assert "Set `group.protocol=classic`" in row
    assert "negotiate" not in row


def test_scenarios_name_tests_that_exist() -> None:
    """`python -m tests.documents` writes the page anew after a test was renamed."""
    tests = documents.scenario_tests()
    wrong = []
    for number, state, cell in re.findall(r"^\| ([A-HLT]\d\d) \| ([a-z ]+) \| (.*) \|$", SCENARIOS, re.MULTILINE):
        known = {name for names in tests.get(number, {}).values() for name in names}
        named = set(re.findall(r"`(test_\w+)`", cell)) if state == "done" else set()
        if not named <= known or (state == "done") != bool(known):
            wrong.append(number)

    assert wrong == []


def test_properties_name_what_checks_them() -> None:
    """What is said to check a property exists, and names it; every name that a violation prints is on the page."""
    rows = re.findall(r"^\| ([IHLSR]\d+) \| .* \| (.*) \|$", PROPERTIES, re.MULTILINE)
    wrong = []
    for label, places in rows:
        for place, other in re.findall(r"`([^`]+\.py)`(?: \(as (\w+)\))?", places):
            name = other or label
            file = (ROOT if place.startswith("tests/") else SOURCE) / place
            values = (SOURCE / "check" / "bounds.py").read_text() if place == "check/properties.py" else ""
            names = place.startswith(("virtual/", "check/"))
            if not file.is_file() or (names and not re.search(rf"\b{name}\b", file.read_text() + values)):
                wrong.append((label, place))
    printed = {
        label
        for path in (SOURCE / "virtual").rglob("*.py")
        for label in re.findall(r'f"([IHLS]\d+) ', path.read_text())
    }

    assert wrong == []
    assert printed <= {label for label, _ in rows}


def test_labels_are_defined() -> None:
    """Every property, mistake or rule that code and tests name is in docs/properties.md or docs/slow-leaders.md."""
    defined = set(re.findall(r"^\| ([IHLSMR]\d+) \|", PROPERTIES + SLOW_LEADERS, re.MULTILINE))
    used = {
        (label, path.relative_to(ROOT).as_posix())
        for path in [*SOURCE.rglob("*.py"), *ROOT.glob("tests/**/*.py"), *PAGES]
        # Scenarios of consumer lag have the letter of liveness, too: elsewhere they are written L-09.
        if "conformance" not in path.parts and path.name not in {"CHANGELOG.md", "scenarios.md"}
        for label in re.findall(r"\b[ILMRS]\d{1,2}\b(?![-.\w])", path.read_text())
        if label != "S0"  # the setting that most core tests begin with: tests/core/s0.py
    }

    assert sorted((label, path) for label, path in used if label not in defined) == []


def test_journal_page_describes_every_event_and_field() -> None:
    """A field that is added to an event is added to its table, too."""
    missing = []
    for event in get_args(events.KnownEvent):
        section = JOURNAL.partition(f"### `{event.TYPE}`")[2].partition("### ")[0]
        missing += [(event.TYPE, each.name) for each in fields(event) if f"`{each.name}`" not in section + ENVELOPE]

    assert missing == []


def test_journal_page_shows_events_as_they_are_written() -> None:
    """Each example reads as an event of its section, and is written again byte by byte."""
    examples = re.findall(r'^\{"v":.*\}$', JOURNAL, re.MULTILINE)

    assert {json.loads(line)["type"] for line in examples} == {event.TYPE for event in get_args(events.KnownEvent)}
    assert [events.to_json(events.from_json(line)).decode() for line in examples] == examples


def test_journal_page_lists_every_cause_and_effect() -> None:
    """What `why --json` may answer is on the page; an unknown cause is in the text."""
    section = JOURNAL.partition("## Ask it why")[2].partition("\n## ")[0]
    table, _, fields_ = section.partition("With `--json`:")

    assert [each.value for each in Cause if f"`{each.value}`" not in table and each is not Cause.UNKNOWN] == []
    assert [each.value for each in Effect if f"`{each.value}`" not in fields_] == []


def test_journal_page_lists_every_reason() -> None:
    """A reason that the controller writes is on the page."""
    section = JOURNAL.partition("### Reasons")[2].partition("\n## ")[0].partition("\n### ")[0]

    assert set(re.findall(r"`([a-z-]+)`", section.partition("|---|---|---|")[2])) == {each.value for each in Reason}
