"""Bearer tokens: read from a file, or returned by a user's function, anew for every login.

A token lives for minutes, a query for months, so nothing is kept here: the program that renews the file, or the service
that the function asks, decides how fresh a token is. Tasks log in, too: on a cluster, the file or the function's module
must be on every machine. What the function raises is not shown, because it may hold the token or a client's secret.
"""

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from syncline.pipeline.client.sasl import is_bearer_token
from syncline.pipeline.client.secret import Secret
from syncline.pipeline.client.security import TokenSource
from syncline.pipeline.errors import OptionError

_FILE_BYTES_MAX: Final = 1 << 20


def token_of(source: TokenSource) -> Secret:
    """Return the current token; raise `OptionError` if there is none."""
    text = _from_file(source) if source.file else _from_function(source)
    token = text.strip()
    if not is_bearer_token(token):
        raise OptionError(
            f"option {source.option} gives something that is not a bearer token: it must be only the token, "
            "without spaces, quotes or a line before it"
        )
    return Secret(token)


def _from_file(source: TokenSource) -> str:
    try:
        with Path(source.file).open("rb") as file:
            content = file.read(_FILE_BYTES_MAX)
    except OSError as error:
        raise OptionError(
            f"option {source.option} names {source.file}, which cannot be read ({error.strerror}): "
            "it must be on every machine that runs this query"
        ) from None
    return content.decode("ascii", errors="replace")


def _from_function(source: TokenSource) -> str:
    function = _imported(source)
    try:
        token = function()
    except Exception as error:  # noqa: BLE001 -- the function is the user's and may raise anything
        raise OptionError(
            f"option {source.option} names {source.function}, which raised {type(error).__name__} instead of "
            "returning a token: call it yourself to see why"
        ) from None
    if not isinstance(token, str):
        raise OptionError(
            f"option {source.option} names {source.function}, which returned {type(token).__name__}: "
            "it must return the token as str"
        )
    return token


def _imported(source: TokenSource) -> Callable[[], Any]:
    module, _, name = source.function.partition(":")
    try:
        function = getattr(importlib.import_module(module), name)
    except Exception as error:  # noqa: BLE001 -- importing runs the user's code
        raise OptionError(
            f"option {source.option} names {source.function}, which cannot be imported ({type(error).__name__}): "
            "write module:function, and have the module on every machine that runs this query"
        ) from None
    if not callable(function):
        raise OptionError(f"option {source.option} names {source.function}, which is not a function")
    return function  # type: ignore[no-any-return]  # its result is checked
