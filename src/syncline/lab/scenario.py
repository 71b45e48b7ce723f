"""The definition of a scenario."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from syncline.lab.stage import Outcome, Stage, Story


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One history: its brokers, their configurations, and its plot.

    Broker `controller` starts first, so that it becomes and stays the controller. `lanes` names the brokers that the
    output and the picture show.
    """

    name: str
    title: str
    about: str
    modes: Mapping[str, str]
    controller: int
    lanes: Mapping[int, str]
    play: Callable[[Stage, str], Outcome]
    config: Mapping[str, str] = field(default_factory=dict)
    config_of_mode: Callable[[str], Mapping[str, str]] = lambda _: {}
    # Draws runs as an HTML page of the scenario's own, instead of the usual picture of logs.
    page: Callable[[list[Story]], str] | None = None

    @property
    def suffix(self) -> str:
        """How the name of a picture's file ends."""
        return "svg" if self.page is None else "html"

    @property
    def brokers(self) -> list[int]:
        """All brokers, the controller first."""
        return [self.controller, *(each for each in self.lanes if each != self.controller)]


def command_line(name: str, known: Mapping[str, str], played: Sequence[str]) -> str:
    """Return the command that plays these modes of a scenario; it names none if all that are `known` are played."""
    modes = [] if set(played) == set(known) else [f" --mode {mode}" for mode in played]
    return f"syncline lab run {name}{''.join(modes)}"
