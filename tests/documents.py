"""Documents that are generated: `python -m tests.documents` writes them, a test compares.

A table of configurations or of scenarios that is kept by hand is wrong within a
week. What is read by people only (why, how) is in the templates here or in
pages of its own.
"""

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, NamedTuple

from syncline.model.broker_config_table import BROKER_CONFIGS, THROTTLE_RATES
from syncline.model.config_types import ConfigDefinition
from syncline.model.topic_config_table import NOT_ACTED_ON, NOT_YET, TOPIC_CONFIGS

TESTS: Final = Path(__file__).parent
DOCUMENTS: Final = TESTS.parent / "docs"

# What Apache Kafka does not have.
OWN_CONFIGS: Final = (
    "eligible.leader.replicas.enable",
    "high.watermark.min.isr.gate",
    "journal.enable",
    "journal.progress.interval.ms",
    "journal.topic.replication.factor",
    "log.truncation.mode",
    "page.cache.follower.keep.bytes",
    "page.cache.leader.budget.bytes",
    "replica.lag.check.interval.ms",
    "replica.lag.mode",
)
NO_EFFECT: Final = (NOT_ACTED_ON, NOT_YET)


class Page(NamedTuple):
    """One generated page of docs/."""

    name: str
    text: Callable[[], str]


# Configurations


def configs() -> str:
    """Return docs/configs.md."""
    broker = [row for row in BROKER_CONFIGS.values() if not row.hidden]
    topic = [row for row in TOPIC_CONFIGS.values() if not row.hidden]
    own = [row for row in broker if row.name in OWN_CONFIGS]
    kafkas = [row for row in broker if row.name not in OWN_CONFIGS]
    unheeded = [*kafkas, *THROTTLE_RATES.values()]
    return "\n".join(
        [
            "# Configurations",
            "",
            "<!-- Generated from syncline/model: python -m tests.documents -->",
            "",
            "Names, defaults and checks are Apache Kafka's wherever Kafka has the configuration, so that scripts",
            "and tools find what they know. A broker is configured with `syncline up --config NAME=VALUE`",
            'or, where the last column does not say "at start", while it runs: `syncline configs alter`. Topics',
            "take theirs with `syncline topics create --config NAME=VALUE` and later. Of a broker's four layers the",
            "first that has a value wins: set for this broker, set for all, given at its start, default.",
            "`--profile test` is a set of values for test suites (`syncline/local/profiles.py`).",
            "",
            "A data directory, ports and broker ids are not configurations here: `syncline up` has options for them.",
            "",
            "## Syncline's own",
            "",
            *_table(own),
            "",
            "## Kafka's, for brokers",
            "",
            *_table(row for row in kafkas if row.documentation not in NO_EFFECT),
            "",
            "## Kafka's, for topics",
            "",
            "A topic without its own value uses the broker's, whose name is in the last column.",
            "",
            *_topic_table(row for row in topic if row.documentation not in NO_EFFECT),
            "",
            "## Without effect",
            "",
            "These are checked, stored and shown, so that tools which set them work; nothing acts on them.",
            "",
            "Not yet, brokers: " + _names(row for row in unheeded if row.documentation == NOT_YET),
            "",
            "Not yet, topics: " + _names(row for row in topic if row.documentation == NOT_YET),
            "",
            "Never, brokers: " + _names(row for row in unheeded if row.documentation == NOT_ACTED_ON),
            "",
            "Never, topics: " + _names(row for row in topic if row.documentation == NOT_ACTED_ON),
            "",
        ]
    )


def _table(rows: Iterable[ConfigDefinition]) -> list[str]:
    lines = ["| name | default | meaning | may change |", "|---|---|---|---|"]
    for row in rows:
        mode = {"read-only": "at start", "cluster-wide": "", "per-broker": "per broker"}[row.update_mode.value]
        lines.append(f"| `{row.name}` | {_default(row)} | {row.documentation} | {mode} |")
    return lines


def _topic_table(rows: Iterable[ConfigDefinition]) -> list[str]:
    lines = ["| name | default | meaning | broker's |", "|---|---|---|---|"]
    for row in rows:
        synonyms = ", ".join(f"`{name}`" for name in row.synonyms)
        lines.append(f"| `{row.name}` | {_default(row)} | {row.documentation} | {synonyms} |")
    return lines


def _default(row: ConfigDefinition) -> str:
    if row.default is None:
        return "none"
    return {str(2**31 - 1): "2^31 - 1", str(2**63 - 1): "2^63 - 1", "": "empty"}.get(row.default, row.default)


def _names(rows: Iterable[ConfigDefinition]) -> str:
    return ", ".join(f"`{row.name}`" for row in rows) + "."


# Scenarios


class Group(NamedTuple):
    """Scenarios of one kind: A01, A02 and so on."""

    letter: str
    title: str
    count: int


GROUPS: Final = (
    Group("A", "Follower state and lag modes", 23),
    Group("B", "ISR, AlterPartition", 25),
    Group("C", "High watermark, produce, reads", 29),
    Group("D", "KIP-501: slow leaders", 25),
    Group("E", "Epochs and truncation", 28),
    Group("F", "Controller", 22),
    Group("G", "Log", 17),
    Group("H", "Fetch protocol and throttling", 11),
)

# Why a scenario has no test.
MISSING: Final[dict[str, str]] = {
    "C19": "transactions are not offered: no marker can be written, and the last stable offset is the high watermark",
    "F16": "reassignment cannot be started; its completion is shown by F07 and "
    "`test_leader_that_completes_its_own_removal_learns_of_the_new_one`",
    "F17": "reassignment cannot be started, so not cancelled either",
    "F18": "reassignment cannot be started",
    "F19": "reassignment cannot be started; its completion is shown by F07",
    "F22": "relinquishing (KIP-501) is not built",
    "G16": "compaction is not built",
    "G17": "compaction is not built",
    "H07": "preferred read replicas (KIP-392) are not built; a consumer that asks a follower is served (H11)",
    "H08": "replication throttles (KIP-73) are not built",
    "H09": "replication throttles (KIP-73) are not built; leaving partitions out is "
    "`test_fetcher_forgets_removed_and_held_partitions`",
    **{f"D{number:02}": "KIP-501 is not built" for number in range(1, 26)},
}


def numbers() -> list[str]:
    """Return the number of every scenario."""
    return [f"{group.letter}{number:02}" for group in GROUPS for number in range(1, group.count + 1)]


def scenario_tests() -> dict[str, dict[str, list[str]]]:
    """Return, by scenario, the names of its tests by file: a test's name begins with the numbers of what it shows."""
    found: dict[str, dict[str, list[str]]] = {}
    for file in sorted(TESTS.rglob("test_*.py")):
        for name in re.findall(r"^ *(?:async )?def (test_\w+)", file.read_text(), re.MULTILINE):
            shown = re.match(r"test_((?:[a-h]\d\d_)*)", name)
            assert shown is not None, "it begins with test_"
            for number in re.findall(r"[a-h]\d\d", shown.group(1)):
                files = found.setdefault(number.upper(), {})
                files.setdefault(file.relative_to(TESTS).as_posix(), []).append(name)
    return found


def scenarios() -> str:
    """Return docs/scenarios.md."""
    tests = scenario_tests()
    done = [number for number in numbers() if number in tests]
    lines = [
        "# Scenarios",
        "",
        "<!-- Generated from the names of the tests: python -m tests.documents -->",
        "",
        "Every scenario of the replication catalogue, by its number, and the test that shows it. A test carries the",
        "number in its name, so `pytest -k a04` runs scenario A04. Files are below `tests/`.",
        "",
        f"{len(done)} of {len(numbers())} are shown.",
    ]
    for group in GROUPS:
        lines += [
            "",
            f"## {group.letter}. {group.title}",
            "",
            "| # | State | Test, or what is missing |",
            "|---|---|---|",
        ]
        for number in (each for each in numbers() if each[0] == group.letter):
            if number in tests:
                places = (
                    f"`{file}`: " + ", ".join(f"`{name}`" for name in names) for file, names in tests[number].items()
                )
                lines.append(f"| {number} | done | {'; '.join(places)} |")
            else:
                lines.append(f"| {number} | not yet | {MISSING[number]} |")
    return "\n".join(lines) + "\n"


GENERATED: Final = (Page("configs.md", configs), Page("scenarios.md", scenarios))


def main() -> None:
    """Write all generated pages."""
    for page in GENERATED:
        (DOCUMENTS / page.name).write_text(page.text())


if __name__ == "__main__":
    main()
