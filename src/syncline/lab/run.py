"""Playing scenarios: each mode on its own cluster."""

import difflib
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from syncline.lab.cluster import LabCluster
from syncline.lab.errors import LabError
from syncline.lab.scenario import Scenario
from syncline.lab.stage import Outcome, Stage, Story
from syncline.local.layout import LocalClusterError

# In reading order; a module is imported when its scenario is played or listed.
NAMES: Final[Mapping[str, str]] = {
    "data-loss": "data_loss",
    "divergence": "divergence",
    "kip-279": "double_election",
    "zombie-leader": "zombie_leader",
    "last-replica-standing": "last_replica",
    "burst-thrash": "burst_thrash",
    "slow-leader": "slow_leader",
    "throttled-move": "throttled_move",
    "lag-by-records-lies": "lag_lies",
    "cache-cliff": "cache_cliff",
}


# With these, brokers do nothing on their own that could disturb a story; a scenario may override them.
COMMON: Final[Mapping[str, str]] = {
    "auto.create.topics.enable": "false",
    "auto.leader.rebalance.enable": "false",
    "fault.injection.enable": "true",
    "journal.enable": "false",
}


def scenario_of(name: str) -> Scenario:
    """Return a scenario by its name."""
    if name not in NAMES:
        known = (*NAMES, "lag-modes")
        raise LabError(
            f"there is no scenario {name!r}.{_meant(name, known)} `syncline lab list` shows them: {', '.join(known)}."
        )
    found: Scenario = import_module(f"syncline.lab.{NAMES[name]}").SCENARIO
    return found


def modes_of(name: str, known: Mapping[str, str], requested: Sequence[str] | None) -> list[str]:
    """Return the modes to play: the requested ones, or all."""
    for mode in requested or ():
        if mode not in known:
            raise LabError(f"{name} has no mode {mode!r}.{_meant(mode, known)} Its modes: {', '.join(known)}.")
    # A mode that was named twice is played once: the picture has one panel for each.
    return list(dict.fromkeys(requested or known))


def _meant(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), 1)
    return f" Did you mean {close[0]}?" if close else ""


def run(scenario: Scenario, mode: str, say: Callable[[str], object], *, logs_to: Path | None = None) -> Story:
    """Play a scenario in one mode on its own brokers, and return what happened.

    If the outcome is not the expected one, copy the brokers' logs to `logs_to`; otherwise keep nothing.
    """
    story = Story(scenario.name, mode, dict(scenario.lanes))
    say(f"{scenario.name}, {mode}: {scenario.modes[mode]}")
    config = {**COMMON, **scenario.config, **scenario.config_of_mode(mode)}
    with LabCluster(config, scenario.brokers) as cluster:
        stage = Stage(cluster, story, say)
        try:
            first, *others = scenario.brokers
            stage.start(first, quietly=True)
            stage.start(*others, quietly=True)
            stage.until(lambda: stage.controller == first, f"broker {first} is the controller")
            story.outcome = scenario.play(stage, mode)
        except (LocalClusterError, OSError) as error:
            # A broker ended by itself, refused a write, or never reached the awaited state: no outcome.
            story.outcome = Outcome(str(error).rstrip("."), is_expected=False)
        finally:
            stage.close()
            if logs_to is not None and not story.outcome.is_expected:
                shutil.copytree(cluster.directory / "logs", logs_to, dirs_exist_ok=True)
                say(f"The brokers' logs are in {logs_to}.")
    say(f"{'as expected' if story.outcome.is_expected else 'NOT AS EXPECTED'}: {story.outcome.text}.")
    return story


def as_json(story: Story) -> dict[str, Any]:
    """Return a run for scripts, without the samples, which only the picture needs."""
    return {
        "scenario": story.scenario,
        "mode": story.mode,
        "as_expected": story.outcome.is_expected,
        "outcome": story.outcome.text,
        "seconds": round(story.lasted_s, 2),
        "replicas": {str(broker_id): name for broker_id, name in story.lanes.items()},
        "contents": {str(broker_id): values for broker_id, values in story.contents.items()},
        "steps": [
            {
                "number": step.number,
                "text": step.text,
                "at_s": round(step.end_s - story.first_s, 3),
                "notes": step.notes,
                "replicas": {str(broker_id): asdict(replica) for broker_id, replica in step.replicas.items()},
            }
            for step in story.steps
        ],
        "marks": [{**asdict(mark), "at_s": round(mark.at_s - story.first_s, 3)} for mark in story.marks],
    }
