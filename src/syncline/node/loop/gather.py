"""Gather: one answer to a request, made from several results when the last one is known."""

from collections.abc import Callable
from typing import Generic, TypeVar, cast

_T = TypeVar("_T")


class Gather(Generic[_T]):
    """Collects results in the order of their slots; `answer` is called once, after `close` and the last result."""

    def __init__(self, answer: Callable[[list[_T]], None]) -> None:
        self._answer = answer
        self._results: list[_T | None] = []
        self._open_count = 0
        self._is_closed = False

    def slot(self) -> Callable[[_T], None]:
        """Return the function that takes the next result."""
        index = len(self._results)
        self._results.append(None)
        self._open_count += 1

        def put(result: _T) -> None:
            self._results[index] = result
            self._open_count -= 1
            self._finish()

        return put

    def close(self) -> None:
        """Declare that there will be no more slots."""
        self._is_closed = True
        self._finish()

    def _finish(self) -> None:
        if self._is_closed and not self._open_count:
            self._answer(cast("list[_T]", self._results))
