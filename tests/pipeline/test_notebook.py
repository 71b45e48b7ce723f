"""What a notebook shows first of an error: IPython itself, as a notebook runs it."""

import subprocess
import sys

import pytest

from syncline.pipeline.notebook import sentence_of

# A notebook's cells go through the same shell. The first cell makes the session, as users do.
NOTEBOOK = """
import sys
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance(colors="nocolor")
for cell in sys.argv[1:]:
    shell.run_cell(cell)
"""
SESSION = """
from syncline.pipeline.session import spark_session
spark = spark_session(master="local[1]", profile="test")
def read(**options):
    return spark.read.format("syncline").options(bootstrap="127.0.0.1:1", subscribe="t", **options).load()
"""


def shown(*cells: str) -> str:
    """Return what the cells print, standard error included."""
    ran = subprocess.run(
        [sys.executable, "-c", NOTEBOOK, *cells],
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=400,
    )
    return ran.stdout


@pytest.mark.spark
def test_sentence_comes_first_and_the_rest_below_it() -> None:
    """A misspelled option, and brokers that are not there; an error of the user's own is shown as ever."""
    pytest.importorskip("IPython")
    mark = "print('cell', flush=True)"
    text = shown(
        SESSION,
        f"{mark}; read(startingOfsets='x').count()",
        f"{mark}; read().count()",
        f"{mark}; 1 / 0",
        f"{mark}; spark.sql('select nothing').count()",
    )
    _, option, broker, own, sql = (part.lstrip() for part in text.split("cell\n"))

    assert option.startswith("OptionError: option startingofsets does not exist; did you mean startingOffsets?\n\n")
    assert "AnalysisException" in option
    assert broker.startswith("BrokerError: ")
    assert "127.0.0.1:1" in broker.splitlines()[0]
    assert "OptionError" not in own
    assert "BrokerError" not in own
    assert "ZeroDivisionError" in own
    assert "UNRESOLVED_COLUMN" in sql
    assert "Error: " not in sql.splitlines()[0]


@pytest.mark.spark
def test_handler_of_the_user_stays() -> None:
    """IPython has room for one. When the shell ends, Spark's own processes may still write to standard error."""
    pytest.importorskip("IPython")
    own = "get_ipython().set_custom_exc((Exception,), lambda shell, kind, error, trace, **_: print('mine', kind))"
    text = shown(own, SESSION, "read(startingOfsets='x').count()")

    (said,) = (line for line in text.splitlines() if line.startswith("mine <class"))
    assert said.endswith("AnalysisException'>")
    assert "OptionError" not in text


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "[STREAM_FAILED] Query: syncline.pipeline.errors.OptionError: option x is wrong",
            "OptionError: option x is wrong",
        ),
        (
            "An exception was thrown:\nsyncline.pipeline.registry.framing.FramingError: the value is short\n\nmore",
            "FramingError: the value is short",
        ),
        ("syncline.pipeline.errors.BrokerError: a\nsyncline.pipeline.errors.DataLossError: b", "DataLossError: b"),
        ("OptionError: somebody else's", None),
        ("", None),
    ],
)
def test_sentence_is_found_in_the_words_of_spark(text: str, sentence: str | None) -> None:
    """Only ours, by the module of its class."""
    assert sentence_of(Exception(text)) == sentence
