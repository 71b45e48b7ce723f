"""Running scenarios: each mode on a cluster of its own, then the outcomes and one picture of all."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from syncline.lab.cluster import LabCluster
from syncline.lab.errors import LabError
from syncline.lab.scenario import Scenario
from syncline.lab.stage import Outcome, Stage, Told
from syncline.local.layout import LocalClusterError

# In the order in which they are best read; the module of each is imported when it is wanted.
NAMES: Final[Mapping[str, str]] = {
    "data-loss": "data_loss",
    "divergence": "divergence",
    "kip-279": "double_election",
    "zombie-leader": "zombie_leader",
    "last-replica-standing": "last_replica",
    "burst-thrash": "burst_thrash",
    "slow-leader": "slow_leader",
}


# Nothing happens but what the story does; a scenario may say otherwise.
COMMON: Final[Mapping[str, str]] = {
    "auto.create.topics.enable": "false",
    "auto.leader.rebalance.enable": "false",
    "fault.injection.enable": "true",
    "journal.enable": "false",
}


def scenario_of(name: str) -> Scenario:
    """Return a scenario by its name."""
    if name not in NAMES:
        raise LabError(f"there is no scenario {name!r}. `syncline lab list` shows them: {', '.join(NAMES)}, lag-modes.")
    found: Scenario = import_module(f"syncline.lab.{NAMES[name]}").SCENARIO
    return found


def modes_of(name: str, known: Mapping[str, str], asked: Sequence[str] | None) -> list[str]:
    """Return the modes to play: those that were asked for, or all."""
    for mode in asked or ():
        if mode not in known:
            raise LabError(f"{name} has no mode {mode!r}. It has: {', '.join(known)}.")
    return list(asked or known)


def run(scenario: Scenario, mode: str, say: Callable[[str], object], *, logs_to: Path | None = None) -> Told:
    """Play a scenario in one mode on brokers of its own, and return what happened.

    If that is not what it should be, the brokers' logs are copied to `logs_to`; otherwise nothing is kept.
    """
    told = Told(scenario.name, mode, dict(scenario.lanes))
    say(f"{scenario.name}, {mode}: {scenario.modes[mode]}")
    config = {**COMMON, **scenario.config, **scenario.config_of_mode(mode)}
    with LabCluster(config, scenario.brokers) as cluster:
        stage = Stage(cluster, told, say)
        try:
            first, *others = scenario.brokers
            stage.start(first, quietly=True)
            stage.start(*others, quietly=True)
            stage.until(lambda: stage.controller == first, f"broker {first} is the controller")
            told.outcome = scenario.play(stage, mode)
        except (LocalClusterError, OSError) as error:
            # A broker that ended by itself, a refused write, something that never came about: no outcome.
            told.outcome = Outcome(str(error).rstrip("."), is_expected=False)
        finally:
            stage.close()
            if logs_to is not None and not told.outcome.is_expected:
                shutil.copytree(cluster.directory / "logs", logs_to, dirs_exist_ok=True)
                say(f"The brokers' logs are in {logs_to}.")
    say(f"{'as expected' if told.outcome.is_expected else 'NOT AS EXPECTED'}: {told.outcome.text}.")
    return told


def as_json(told: Told) -> dict[str, Any]:
    """Return a run for scripts: without what only the picture needs."""
    return {
        "scenario": told.scenario,
        "mode": told.mode,
        "as_expected": told.outcome.is_expected,
        "outcome": told.outcome.text,
        "seconds": round(told.lasted_s, 2),
        "replicas": {str(broker_id): name for broker_id, name in told.lanes.items()},
        "contents": {str(broker_id): values for broker_id, values in told.contents.items()},
        "steps": [
            {
                "number": step.number,
                "text": step.text,
                "at_s": round(step.end_s, 3),
                "notes": step.notes,
                "replicas": {str(broker_id): asdict(replica) for broker_id, replica in step.replicas.items()},
            }
            for step in told.steps
        ],
        "marks": [asdict(mark) for mark in told.marks],
    }
