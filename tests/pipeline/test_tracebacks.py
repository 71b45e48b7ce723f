"""An error of ours hides the traceback in the process that fails with it, any other shows it."""

import os

import pytest

from syncline.pipeline.errors import BrokerError, OptionError
from syncline.pipeline.tracebacks import plainly


@pytest.fixture(autouse=True)
def _process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the environment back afterwards: in Spark, the process ends with the error."""
    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "1")
    monkeypatch.delenv("SPARK_HIDE_TRACEBACK")


def test_an_error_of_ours_hides_the_traceback() -> None:
    """Spark's processes look at the environment after the error was raised."""
    with pytest.raises(OptionError, match="write true or false"), plainly():
        raise OptionError("option x cannot be 'y': write true or false")

    assert os.environ["SPARK_HIDE_TRACEBACK"]


def test_any_other_error_keeps_its_traceback() -> None:
    """A defect has to be found: its frames say where it is."""
    with pytest.raises(ZeroDivisionError), plainly():
        _ = 1 // 0

    assert "SPARK_HIDE_TRACEBACK" not in os.environ


def test_an_error_inside_a_generator_is_plain_as_well() -> None:
    """Tasks yield rows; the error comes after the first of them."""

    def rows():
        with plainly():
            yield 1
            raise BrokerError("no broker answers")

    found = rows()
    assert next(found) == 1
    with pytest.raises(BrokerError):
        next(found)

    assert os.environ["SPARK_HIDE_TRACEBACK"]
