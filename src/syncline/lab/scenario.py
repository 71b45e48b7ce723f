"""What a scenario is."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from syncline.lab.stage import Outcome, Stage


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One history: who takes part, under which configurations, and how it goes.

    Broker `controller` is started first, so that it is the controller and stays it; `lanes` are the brokers
    that the story and the picture show, with what they are called there.
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

    @property
    def brokers(self) -> list[int]:
        """All brokers, the controller first."""
        return [self.controller, *(each for each in self.lanes if each != self.controller)]
