"""What a script shows of an error: its last line, which begins with Spark's words and ends with our sentence.

Spark's words cannot be removed (docs/pipeline.md, Limits). These are all of them, so that a change of Spark's is seen.
"""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.pipeline.source.test_source import _numbered

pytestmark = [pytest.mark.spark, pytest.mark.process, pytest.mark.filterwarnings("ignore::ResourceWarning")]

PLANNING = "AnalysisException: [PYTHON_DATA_SOURCE_ERROR] Failed to {} Python data source {}: "
TASK = "PythonException: An exception was thrown from the Python worker:\n"
STREAM = (
    "StreamingQueryException: [STREAM_FAILED] Query {} terminated with exception: "
    "[PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR] Failed when Python streaming data source perform {}: "
)


def _shown(action: Callable[[], object]) -> str:
    """Return what IPython prints below the frames of the user's own code, without the names of queries."""
    with pytest.raises(Exception) as caught:
        action()
    return re.sub(r"Query \[id = [^]]*\]", "Query {}", f"{type(caught.value).__name__}: {caught.value}")


def test_planning_errors_name_what_spark_did(spark, load: Callable, bootstrap: str) -> None:
    """An option, a topic and an option of the sink."""
    rows = spark.range(1).selectExpr("'x' AS value").write.format("syncline").mode("append")

    assert _shown(load(subscribe="t", startingOfsets="earliest").count).startswith(
        PLANNING.format("initialize", "reader")
        + "syncline.pipeline.errors.OptionError: option startingofsets does not exist; did you mean startingOffsets?"
    )
    assert _shown(load(subscribe="no-such").count).startswith(
        PLANNING.format("generate", "read partitions")
        + "syncline.pipeline.errors.BrokerError: topic no-such does not exist on "
    )
    assert _shown(rows.options(bootstrap=bootstrap, tpoic="t").save).startswith(
        PLANNING.format("initialize", "writer")
        + "syncline.pipeline.errors.OptionError: option tpoic does not exist; did you mean topic?"
    )


def test_task_errors_begin_a_line_of_their_own(load: Callable, broker) -> None:
    """Records that were deleted between planning and reading."""
    topic = broker.topic()
    broker.produce(topic, _numbered(20))
    frame = load("offset long", subscribe=topic)
    frame.count()
    broker.delete_records(topic, 0, 10)

    assert _shown(frame.toArrow).startswith(
        TASK + f"syncline.pipeline.errors.DataLossError: {topic}-0 no longer holds offsets 0 to 9; "
    )


@pytest.mark.parametrize(
    ("options", "columns", "method", "sentence"),
    [
        (
            {"startingOfsets": "earliest"},
            "offset long",
            "prepareForTriggerAvailableNow",
            "OptionError: option startingof",
        ),
        ({}, "foo int", "prepareForTriggerAvailableNow", "OptionError: there is no column foo: .schema(...) may name "),
        ({}, "offset long", "initialOffset", "BrokerError: topic no-such does not exist on "),
    ],
)
def test_stream_errors_have_the_sentence(
    spark, bootstrap: str, tmp_path: Path, options, columns: str, method: str, sentence: str
) -> None:
    """Guards: Spark replaced an error about options with one about a variable of its own."""
    reader = spark.readStream.format("syncline").schema(columns).options(**options)
    frame = reader.option("bootstrap", bootstrap).option("subscribe", "no-such").load()
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
    query = writer.start()

    said = STREAM.format("{}", method)
    assert _shown(query.awaitTermination).startswith(f"{said}syncline.pipeline.errors.{sentence}")


def test_errors_of_a_streams_sink_have_the_sentence(spark, bootstrap: str, tmp_path: Path) -> None:
    """The sink's options are read when the first micro-batch is planned."""
    frame = spark.readStream.format("rate").load().selectExpr("CAST(value AS string) AS value")
    writer = frame.writeStream.format("syncline").option("checkpointLocation", str(tmp_path))
    query = writer.options(bootstrap=bootstrap, tpoic="t").start()

    assert "syncline.pipeline.errors.OptionError: option tpoic does not exist; did you mean topic?" in _shown(
        query.awaitTermination
    )
