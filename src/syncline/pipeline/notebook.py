"""In a notebook, an error of ours begins with its sentence.

Spark puts its own words before a sentence that comes from one of its Python processes (docs/pipeline.md, Limits), and
IPython prints the frames of Spark's code above both. IPython has a place for that: a handler for chosen classes of
exceptions (`set_custom_exc`). Ours prints the sentence, and lets IPython show the rest as it would have.
"""

import re
import sys
from typing import Any, Final

# The last of them, as causes come first; the sentence ends where Spark goes on about the query.
_OURS: Final = re.compile(r"syncline\.pipeline\.(?:\w+\.)*(\w+(?:Error|Refused|Loss)): (.+)")


def sentence_of(error: BaseException) -> str | None:
    """Return our sentence in the text of an error, None if it is not one of ours."""
    found = _OURS.findall(str(error))
    return f"{found[-1][0]}: {found[-1][1].strip()}" if found else None


def show_sentences_first() -> bool:
    """Have IPython print our sentence above what it shows of a PySpark error; return whether it will.

    Without IPython, and where the user has a handler of his own, nothing changes.
    """
    module = sys.modules.get("IPython")
    shell = None if module is None else module.get_ipython()
    if shell is None or (shell.custom_exceptions and shell.CustomTB is not _show):
        return False
    from pyspark.errors import PySparkException

    shell.set_custom_exc((PySparkException,), _show)
    return True


def _show(
    shell: Any, kind: type[BaseException], error: BaseException, trace: Any, tb_offset: int | None = None
) -> None:
    """Print the sentence, if there is one, and then what IPython prints anyway."""
    sentence = sentence_of(error)
    if sentence is not None:
        sys.stderr.write(f"{sentence}\n\n")
    shell.showtraceback((kind, error, trace), tb_offset=tb_offset)
