"""The text format, against the parser and the writer of Prometheus's own library."""

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client import Gauge as LibraryGauge
from prometheus_client import Histogram as LibraryHistogram
from prometheus_client.parser import text_string_to_metric_families

from syncline.node.counting.counters import Histogram
from syncline.node.metrics import table
from syncline.node.metrics.text import Page, header, labels_text


def text_of(page: Page) -> str:
    """Return a page as text."""
    return b"".join(page.sections()).decode()


def test_page_without_samples_is_empty() -> None:
    """A name without samples is not announced."""
    assert text_of(Page()) == ""


def test_samples_of_a_name_stand_together_behind_their_meaning() -> None:
    """In the order of the table, whatever the order of the input."""
    page = Page()
    page.add(table.BYTES_IN, 5, "b")
    page.add(table.LEADER_COUNT, 3)
    page.add(table.BYTES_IN, 7)

    assert text_of(page) == (
        "# HELP kafka_server_replicamanager_leadercount Partitions led by this broker. Unit: partitions.\n"
        "# TYPE kafka_server_replicamanager_leadercount gauge\n"
        "kafka_server_replicamanager_leadercount 3\n"
        f"{header(table.BYTES_IN)}"
        'kafka_server_brokertopicmetrics_bytesin_total{topic="b"} 5\n'
        "kafka_server_brokertopicmetrics_bytesin_total 7\n"
    )


@pytest.mark.parametrize("value", ["plain", 'a "rack"', "back\\slash", "two\nlines", "ünïcode", ""])
def test_label_values_survive_their_quoting(value: str) -> None:
    """A rack's name is any text; the library reads it back, and would have written the same."""
    registry = CollectorRegistry()
    LibraryGauge("g", "A.", ["rack"], registry=registry).labels(value).set(1)
    text = f"# HELP g A.\n# TYPE g gauge\ng{labels_text(('rack',), (value,))} 1.0\n"

    assert text == generate_latest(registry).decode()
    (family,) = text_string_to_metric_families(text)
    assert family.samples[0].labels == {"rack": value}


def test_histogram_counts_up_to_each_bound() -> None:
    """A value on a bound lies below it; the library counts the same values the same way."""
    ours, registry = Histogram((1, 10, 100)), CollectorRegistry()
    theirs = LibraryHistogram(table.FETCH_LAG_BYTES.name, "x", buckets=(1, 10, 100), registry=registry)
    for value in (0, 1, 2, 10, 11, 100, 101, 5_000):
        ours.note(value)
        theirs.observe(value)
    page = Page()
    page.add_histogram(table.FETCH_LAG_BYTES, ours)

    def samples(text: str) -> dict[str, float]:
        (family, *_) = text_string_to_metric_families(text)
        return {
            f"{sample.name.removeprefix(family.name)} {float(sample.labels.get('le', -1))}": sample.value
            for sample in family.samples
            if not sample.name.endswith("_created")
        }

    assert samples(text_of(page)) == samples(generate_latest(registry).decode())


def test_labels_are_spelled_as_asked_for() -> None:
    """Dashboards differ: some were made with lowercaseOutputLabelNames, some without."""
    lower, kafka = Page(), Page(lowercase=False)
    for page in (lower, kafka):
        page.add(table.PURGATORY_SIZE, 1, "Fetch")

    assert 'purgatorysize{delayedoperation="Fetch"} 1' in text_of(lower)
    assert 'purgatorysize{delayedOperation="Fetch"} 1' in text_of(kafka)
