"""Documents that are generated: `python -m tests.documents` writes them, a test compares.

A table of configurations or scenarios that is maintained by hand is wrong within
a week. Prose is in the templates here or on other pages.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from syncline.model.broker_config import BROKER_CONFIGS
from syncline.model.config_types import NOT_ACTED_ON, NOT_YET, ConfigDefinition
from syncline.model.kept_configs import THROTTLE_RATES
from syncline.model.topic_config import TOPIC_CONFIGS
from syncline.node.channel.states import DEPARTURE, LINK, DepartureState, LinkState
from syncline.node.faults.table import KINDS, OPTIONS, FaultKind
from syncline.node.metrics.lag_table import FETCH_FAMILIES, GROUP_FAMILIES
from syncline.node.metrics.table import FAMILIES, Family
from tests.dashboards import DASHBOARDS, EXPORTER_DASHBOARDS

TESTS: Final = Path(__file__).parent
DOCUMENTS: Final = TESTS.parent / "docs"

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
    own = [row for row in broker if row.own]
    kafkas = [row for row in broker if not row.own]
    unheeded = [*kafkas, *THROTTLE_RATES.values()]
    return "\n".join(
        [
            "# Configurations",
            "",
            "<!-- Generated from syncline/model: python -m tests.documents -->",
            "",
            "Names, defaults and checks are Apache Kafka's wherever Kafka has the configuration, so that scripts",
            "and tools work unchanged. Configure a broker with `syncline up --config NAME=VALUE` or, where the last",
            'column does not say "at start", while it runs: `syncline configs alter`. Configure a topic with',
            "`syncline topics create --config NAME=VALUE` or `syncline configs alter`. A broker uses the first value",
            "of these four: set for this broker, set for all brokers, given at its start, default.",
            "What is set stays set; what is given at a start is for that run, and the next `up` of the data directory",
            "names what it lacks of it.",
            "`--profile test` is a set of values for test suites (`syncline/local/profiles.py`).",
            "",
            "A data directory, ports and broker ids are not configurations here: `syncline up` has options for them.",
            "",
            "Nor is what brokers log: the environment variable `SYNCLINE_LOG_LEVEL` of `syncline up` is `INFO` unless",
            "set to `DEBUG`, `WARNING`, `ERROR` or `CRITICAL`. The files in `logs/` of the data directory grow without",
            "end. Brokers append to them and keep them open: rotate them by copying and truncating (`copytruncate`).",
            "",
            "`max.connections` and `max.connections.per.ip` may lock out everybody who could take them back. The ports",
            "between brokers, `internal_ports` in `cluster.json`, stay open:",
            "`syncline configs alter broker all --unset max.connections --bootstrap 127.0.0.1:PORT`.",
            "",
            "## Syncline's own",
            "",
            *_table(own),
            "",
            "## Kafka's, for brokers",
            "",
            *_table(row for row in unheeded if row.documentation not in NO_EFFECT),
            "",
            "## Kafka's, for topics",
            "",
            "A topic without its own value uses the broker's; the last column names it.",
            "",
            *_topic_table(row for row in topic if row.documentation not in NO_EFFECT),
            "",
            "## Without effect",
            "",
            "Brokers check, store and show these, so that tools which set them work; they have no effect.",
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
    # Whether all of them are due; of a group that still grows, the page has those that have tests.
    is_complete: bool = True


GROUPS: Final = (
    Group("A", "Follower state and lag modes", 23),
    Group("B", "ISR, AlterPartition", 25),
    Group("C", "High watermark, produce, reads", 29),
    Group("D", "KIP-501: slow leaders", 25),
    Group("E", "Epochs and truncation", 28),
    Group("F", "Controller", 22),
    Group("G", "Log", 17),
    Group("H", "Fetch protocol and throttling", 11),
    Group("L", "Consumer lag in records, bytes and time", 40, is_complete=False),
    Group("T", "Throttled replication and moves of replicas", 59),
)

# Scenarios of features that are not there yet: by number, the feature, and what of it is shown nevertheless.
WAITING: Final[dict[str, tuple[str, str]]] = {
    "G16": ("compaction", "topics may be configured as compacted; their records are checked for keys and all kept"),
    "G17": ("compaction", "nothing is removed, so no offset is missing"),
}
# What else has no test, and why. Each stands in docs/divergences.md, too.
MISSING: Final[dict[str, str]] = {
    "C19": "transactions are refused, so no marker can be written; the last stable offset is the high watermark",
}
MISSING_MAX: Final = 5
# What a module says whose tests start broker processes.
REAL: Final = re.compile(r"^pytestmark = pytest\.mark\.process", re.MULTILINE)


def numbers() -> list[str]:
    """Return the number of every scenario; of groups that still grow, of those that have tests."""
    shown = scenario_tests()
    return [
        number
        for group in GROUPS
        for number in (f"{group.letter}{index:02}" for index in range(1, group.count + 1))
        if group.is_complete or number in shown
    ]


@cache
def scenario_tests() -> dict[str, dict[str, list[str]]]:
    """Return, by scenario, the names of its tests by file: a test's name begins with the numbers of what it shows."""
    found: dict[str, dict[str, list[str]]] = {}
    for file in sorted(TESTS.rglob("test_*.py")):
        for name in re.findall(r"^ *(?:async )?def (test_\w+)", file.read_text(), re.MULTILINE):
            shown = re.match(r"test_((?:[a-hlt]\d\d_)*)", name)
            assert shown is not None, "it begins with test_"
            for number in re.findall(r"[a-hlt]\d\d", shown.group(1)):
                files = found.setdefault(number.upper(), {})
                files.setdefault(file.relative_to(TESTS).as_posix(), []).append(name)
    return found


def on_processes() -> list[str]:
    """Return the scenarios of throttles that a test shows on broker processes, whatever shows them in virtual time."""
    real = {file for file in TESTS.rglob("test_*.py") if REAL.search(file.read_text()) or file.parent.name == "interop"}
    rooms = {file.relative_to(TESTS).as_posix() for file in real}
    return [number for number, files in sorted(scenario_tests().items()) if number[0] == "T" and rooms & files.keys()]


def scenarios() -> str:
    """Return docs/scenarios.md."""
    tests = scenario_tests()
    done = [number for number in numbers() if number in tests]
    real = on_processes()
    lines = [
        "# Scenarios",
        "",
        "<!-- Generated from the names of the tests: python -m tests.documents -->",
        "",
        "Every scenario of the catalogues of replication, of consumer lag (so far) and of throttles, and the test that",
        "shows it. The test's name has the number, so `pytest -k a04` runs scenario A04. Files are below `tests/`.",
        "",
        f"Tests show {len(done)} of {len(numbers())}; {len(WAITING)} wait for a feature and are at the end.",
        "",
        f"Of those of throttles, {len(real)} are shown on broker processes, too, within the catalogue's tolerances;",
        "in virtual time numbers are exact:",
        f"{', '.join(real)}.",
    ]
    for group in GROUPS:
        lines += [
            "",
            f"## {group.letter}. {group.title}",
            "",
            "| # | State | Test, or what is missing |",
            "|---|---|---|",
        ]
        for number in (each for each in numbers() if each[0] == group.letter and each not in WAITING):
            if number in tests:
                places = (
                    f"`{file}`: " + ", ".join(f"`{name}`" for name in names) for file, names in tests[number].items()
                )
                lines.append(f"| {number} | done | {'; '.join(places)} |")
            else:
                lines.append(f"| {number} | not yet | {MISSING[number]} |")
    lines += ["", "## Waiting for a feature", "", "| # | Feature | What there is |", "|---|---|---|"]
    lines += [f"| {number} | {feature} | {note} |" for number, (feature, note) in WAITING.items()]
    return "\n".join(lines) + "\n"


# Metrics

METRICS_HEAD: Final = """\
# Metrics

<!-- Generated from syncline/node/metrics/table.py: python -m tests.documents -->

Each broker answers `GET /metrics` in Prometheus's text format. A local cluster uses free ports and keeps them from
run to run; `syncline status` shows the addresses, and `cluster.json` has them for scripts. With
`syncline up --config metrics.port=9404` the first broker uses 9404 and the others the ports after it; -1 switches
metrics off. Like all listeners it is on 127.0.0.1. It answers requests for `localhost` or a loopback address and
rejects others with 421, because a web page could otherwise read metrics through its own host name (DNS rebinding).

```yaml
scrape_configs:
  - job_name: syncline
    static_configs:
      - targets: ["127.0.0.1:9404", "127.0.0.1:9405", "127.0.0.1:9406"]
```

Names are those of the JMX exporter for Apache Kafka's MBeans with its example rules `kafka-2_0_0.yml`, so dashboards
and alerts for Kafka work. A meter exports its count, from which `rate()` computes a rate; as with those rules, brokers
do not export Kafka's averages over 1, 5 and 15 minutes. Labels of several words are in lower case
(`delayedoperation`), as with `lowercaseOutputLabelNames`. `metrics.label.names=kafka` spells them as Kafka does
(`delayedOperation`), for dashboards that need it; `promtool check metrics` then complains.

Where samples have the label `topic`, the sample without it is the sum over all topics, including topics that this
broker no longer hosts. Use `{topic!=""}` or `{topic=""}`, as with Kafka. Metrics that only the controller knows are 0
on other brokers, so `sum()` over the brokers is right.

A scrape reads the state on which brokers decide, at most once per second. A scrape of 2,000 partitions with three
replicas each is 2 MB and takes a broker about 20 ms of CPU time, in slices of a few milliseconds; without scrapes,
metrics cost nothing ([ADR 8](adr/0008-metrics-by-hand.md)).
"""

METRICS_OF_LAG: Final = {
    "Lag of groups": (
        "The broker that coordinates a group exports these; [lag.md](lag.md) explains the quantities. The labels of",
        "the first three depend on `lag.metrics.detail`: with `partition` they have `topic` and `partition`, with",
        "`topic` only the topic, with `group` neither. They begin with a group's first commit and end with the group.",
    ),
    "How far back consumers read": (
        'The broker that served the fetches exports these; followers\' fetches do not count. `weight="fetch"` counts',
        'fetches, `weight="bytes"` the bytes that they returned. With `lag.metrics.detail=group` there are none for',
        "single topics and clients.",
    ),
}

METRICS_TAIL: Final = """\
## Dashboards

These panels of common Grafana dashboards for Kafka find their metrics. Panels about the JVM, Kafka's network threads
and request phases, and containers stay empty; use `process_*`.

Confluent's dashboards use the MBeans' full names for counters (`..._bytesinpersec`). This configuration makes
Prometheus store them under those names:

```yaml
    metric_relabel_configs:
      - source_labels: [__name__]
        regex: (kafka_.+)_total
        target_label: __name__
        replacement: ${1}persec
```
"""

METRICS_COMPATIBLE: Final = """\
`metrics.compatible` switches on pages with everything that dashboards for other exporters query, except the exporter's
own JVM ([lag.md](lag.md#metrics)). These pages show the whole cluster: scrape one broker. They use the exporters'
names, not all of which follow Prometheus's rules.
"""

METRIC_GROUPS: Final = (
    ("ReplicaManager", "Partitions and replicas of a broker"),
    ("Partition", "By partition"),
    ("ReplicaFetcherManager FetcherLagMetrics FetcherStats", "Fetching from leaders"),
    (
        "DelayedOperationPurgatory DelayedProduceMetrics DelayedFetchMetrics DelayedDeleteRecordsMetrics",
        "Requests that wait",
    ),
    ("FetchSessionCache", "Fetch sessions"),
    ("BrokerTopicMetrics RequestMetrics", "Traffic"),
    ("SocketServer", "Connections of clients"),
    ("Log", "Logs"),
    ("KafkaController ControllerStats", "Controller"),
    ("KafkaServer", "The broker"),
    ("", "Syncline's own, and the process"),
)


def metrics() -> str:
    """Return docs/metrics.md."""
    lines = [METRICS_HEAD]
    for types, title in METRIC_GROUPS:
        rows = [family for family in FAMILIES if _bean_type(family) in types.split(" ")]
        is_kafkas = bool(types)
        lines += [f"## {title}", ""]
        lines += ["| Metric | Type | Unit | Meaning |" + (" MBean |" if is_kafkas else "")]
        lines += ["|---|---|---|---|" + ("---|" if is_kafkas else "")]
        lines += [_metric(row, has_bean=is_kafkas) for row in rows]
        lines += [""]
    for title, families in (("Lag of groups", GROUP_FAMILIES), ("How far back consumers read", FETCH_FAMILIES)):
        lines += [
            f"## {title}",
            "",
            *METRICS_OF_LAG[title],
            "",
            "| Metric | Type | Unit | Meaning |",
            "|---|---|---|---|",
        ]
        lines += [*(_metric(row, has_bean=False) for row in families), ""]
    lines += [METRICS_TAIL]
    for dashboard in DASHBOARDS:
        renamed = ", with counters renamed as above" if dashboard.is_renamed else ""
        panels = ", ".join(dashboard.panels)
        lines += [f"**{dashboard.title}** ({len(dashboard.panels)} panels{renamed}): {panels}.", ""]
    lines += [METRICS_COMPATIBLE, "| Dashboard | Page |", "|---|---|"]
    lines += [*(f"| {each.title} | `/metrics/{each.exporter}` |" for each in EXPORTER_DASHBOARDS), ""]
    return "\n".join(lines)


def _bean_type(family: Family) -> str:
    found = re.search(r"type=(\w+)", family.bean)
    return found[1] if found else ""


def _metric(family: Family, *, has_bean: bool) -> str:
    labels = ", ".join(label.lower() for label in family.labels)
    name = f"`{family.name}`" + (f" {{{labels}}}" if labels else "") + (" and in total" if family.has_total else "")
    row = f"| {name} | {family.kind} | {family.unit} | {family.meaning} |"
    return f"{row} `{family.bean.split(',')[0]},{family.bean.split(',')[1]}` |" if has_bean else row


# Faults


FAULTS_BEGIN: Final = "<!-- Generated from syncline/node/faults/table.py: python -m tests.documents -->\n"
FAULTS_END: Final = "<!-- End of what is generated -->\n"


def faults() -> str:
    """Return docs/faults.md: the tables of kinds and of options are written anew, the rest is kept."""
    head, _, rest = (DOCUMENTS / "faults.md").read_text().partition(FAULTS_BEGIN)
    kinds = [f"| `{kind.name}` | {kind.effect} | {_options_of(kind)} | {_needs_of(kind)} |" for kind in KINDS.values()]
    options = [f"| `{option.flag}` | `{name}` | {option.help} |" for name, option in OPTIONS.items()]
    tables = [
        "| kind | what happens | options | needs |\n|---|---|---|---|",
        *kinds,
        "",
        "| option | from Python | |\n|---|---|---|",
        *options,
    ]
    return head + FAULTS_BEGIN + "\n" + "\n".join(tables) + "\n\n" + FAULTS_END + rest.partition(FAULTS_END)[2]


def _options_of(kind: FaultKind) -> str:
    return ", ".join(f"`{OPTIONS[name].flag}`" for name in kind.options if name not in {"trigger", "for_s", "fault_id"})


def _needs_of(kind: FaultKind) -> str:
    return ", ".join(" or ".join(f"`{OPTIONS[name].flag}`" for name in names.split()) for names in kind.needs)


# States of a broker's membership

CHANNEL_HEAD: Final = """\
# A broker and its controller

<!-- Generated from syncline/node/channel/states.py: python -m tests.documents -->

Each broker keeps two connections to the current controller. On the stream, a poll for metadata waits until there is a
change. On the control connection, the broker registers, sends heartbeats, proposes ISRs and forwards clients' requests.
One connection would not do, because its answers come in the order of the requests; only long forwarded requests, on
which the controller decides in parts, are answered out of turn.

Unanswered ISR proposals (KIP-497) and requests survive a change of the controller, requests until their time-out. Both
wait until the broker has registered again.

A broker can lose the controller in any phase of its departure, so two state machines describe its membership. They
are tables (`syncline/node/channel/states.py`). A transition that is not in its table fails an assertion, in production
as in simulated runs.
"""

CHANNEL_LINK: Final = """\
## With the current controller

A search asks the store for the lease holder, every 2 ms at first and finally every 250 ms. The controller grants a
registration when it has committed it; just after it took over, it may delay registrations. Only a registered broker
sends other requests: the controller refuses them on other connections.
"""

CHANNEL_DEPARTURE: Final = """\
## Leaving

A broker that stops alone asks with each heartbeat, every 20 ms, whether it may stop: it hands its partitions over
first. Brokers that stop together have no broker to hand over to: each waits until all are ready. A broker that stops
with all others, or that may stop, sends no heartbeats, because a late one would unfence it again.
"""


def controller_channel() -> str:
    """Return docs/controller-channel.md."""
    return "\n".join(
        [
            CHANNEL_HEAD,
            CHANNEL_LINK,
            *_diagram(LINK, LinkState.NEW),
            CHANNEL_DEPARTURE,
            *_diagram(DEPARTURE, DepartureState.STAYING),
        ]
    )


def _diagram(table: Mapping[Any, Mapping[Any, Any]], first: Enum) -> list[str]:
    """Return a table of transitions as a Mermaid diagram; a state that stays as it is is left out."""
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {_node(first)}"]
    lines += [f'    state "{state.value}" as {_node(state)}' for state in table]
    lines += [
        f"    {_node(state)} --> {_node(following)}: {event.value}"
        for state, row in table.items()
        for event, following in row.items()
        if following is not state
    ]
    return [*lines, "```", ""]


def _node(state: Enum) -> str:
    return state.name.lower()


GENERATED: Final = (
    Page("faults.md", faults),
    Page("configs.md", configs),
    Page("scenarios.md", scenarios),
    Page("metrics.md", metrics),
    Page("controller-channel.md", controller_channel),
)


def main() -> None:
    """Write all generated pages."""
    for page in GENERATED:
        (DOCUMENTS / page.name).write_text(page.text())


if __name__ == "__main__":
    main()
