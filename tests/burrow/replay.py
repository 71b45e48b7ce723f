"""Burrow's own inputs, put through our rules: every judgement of Burrow must come out again.

    its log: "StorageSetBrokerOffset", "StorageSetConsumerOffset"   ->  EndRing, CommitRing
             "StorageFetchConsumer"                                 ->  a picture of one group, at this line
             "evaluation result"                                    ->  our verdict on the picture, compared

Burrow looks at its clock, in whole seconds, somewhere between the last two; if a second ends there, either will do.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from syncline.core.lag.burrow_status import group_status, partition_status
from syncline.core.lag.commit_ring import Commit, CommitRing
from syncline.core.lag.end_ring import EndRing
from syncline.model.ids import TopicPartition
from syncline.model.lag import GroupStatus, PartitionVerdict
from tests.burrow.server import INTERVALS

Verdicts = Mapping[TopicPartition, PartitionVerdict]


class Picture(NamedTuple):
    """What Burrow had of one group when it looked."""

    at_s: float
    windows: Mapping[TopicPartition, tuple[tuple[Commit | None, ...], tuple[int, ...]]]

    def verdicts(self, now_s: int) -> Verdicts:
        """Return our verdict on each partition, at one second of the clock."""
        return {key: partition_status(commits, ends, now_s * 1_000) for key, (commits, ends) in self.windows.items()}


class Evaluation(NamedTuple):
    """One judgement of Burrow, and ours by the same inputs: one, or two if a second ended meanwhile."""

    group: str
    at_s: float
    status: str
    total_lag: int
    ours: tuple[Verdicts, ...]

    @property
    def is_equal(self) -> bool:
        """Whether one of ours has the same status and lag."""
        return any(
            (verdict.status.name, verdict.total_lag) == (self.status, self.total_lag)
            for verdict in (group_status(verdicts.items()) for verdicts in self.ours)
        )


class Replay:
    """Burrow's log, line by line."""

    def __init__(self) -> None:
        self._rings: dict[str, dict[TopicPartition, CommitRing]] = {}
        self._ends: dict[TopicPartition, EndRing] = {}
        self._pictures: dict[str, Picture] = {}
        self._order = 0
        self.evaluations: list[Evaluation] = []
        # Commits whose lag Burrow saw otherwise.
        self.wrong_lags: list[str] = []

    def read(self, lines: Iterable[Mapping[str, Any]]) -> None:
        """Take lines of the log."""
        for line in lines:
            if line.get("msg") == "evaluation result":
                self._evaluated(line)
            elif line.get("msg") == "ok":
                match line.get("request"):
                    case "StorageSetBrokerOffset":
                        self._ends.setdefault(_key(line), EndRing(INTERVALS)).add(line["offset"], line["timestamp"])
                    case "StorageSetConsumerOffset":
                        self._committed(line)
                    case "StorageFetchConsumer":
                        self._looked(line)

    def _committed(self, line: Mapping[str, Any]) -> None:
        key = _key(line)
        ring = self._rings.setdefault(line["consumer"], {}).setdefault(key, CommitRing(INTERVALS, 0))
        ends = self._ends.get(key)
        newest = None if ends is None else ends.newest
        self._order += 1
        ring.add(
            line["offset"],
            self._order,
            line["timestamp"],
            int(line["ts"] * 1_000),
            None if newest is None else newest.offset,
        )
        last = ring.commits()[-1]
        if last is None or (last.offset, last.lag) != (line["offset"], line["lag"]):
            self.wrong_lags.append(f"{line['consumer']} {key}: {last}, Burrow has {line['offset']}, lag {line['lag']}")

    def _looked(self, line: Mapping[str, Any]) -> None:
        windows = {
            key: (tuple(ring.commits()), tuple(self._ends[key].offsets()))
            for key, ring in self._rings.get(line["consumer"], {}).items()
        }
        self._pictures[line["consumer"]] = Picture(line["ts"], windows)

    def _evaluated(self, line: Mapping[str, Any]) -> None:
        if line["status"] == GroupStatus.NOTFOUND.name:
            return
        picture = self._pictures[line["consumer"]]
        seconds = range(int(picture.at_s), int(line["ts"]) + 1)
        ours = tuple(picture.verdicts(second) for second in seconds)
        self.evaluations.append(Evaluation(line["consumer"], line["ts"], line["status"], line["total_lag"], ours))

    def explains(self, answer: Mapping[str, Any], asked_s: float, answered_s: float, cache_s: float) -> bool:
        """Return whether an answer of Burrow, partition by partition, is one of our verdicts of that time."""
        told = {
            TopicPartition(each["topic"], each["partition"]): (each["status"], each["current_lag"])
            for each in answer["partitions"]
            # Burrow lists all partitions of a topic; of those without a commit it knows nothing.
            if each["start"] is not None
        }
        return any(
            told == {key: (verdict.status.name, verdict.current_lag) for key, verdict in verdicts.items()}
            for evaluation in self.evaluations
            if evaluation.group == answer["group"] and asked_s - cache_s - 1 <= evaluation.at_s <= answered_s + 1
            for verdicts in evaluation.ours
        )


def _key(line: Mapping[str, Any]) -> TopicPartition:
    return TopicPartition(line["topic"], line["partition"])
