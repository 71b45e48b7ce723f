"""Group lag, created with the first group: a broker without groups does not import its code."""

from typing import TYPE_CHECKING

from syncline.node.live_configs import LiveConfigs

if TYPE_CHECKING:
    from syncline.node.lag.commits import Commits, TermCommits


class LagOnDemand:
    """What this broker remembers of its groups' commits, if it coordinates any."""

    def __init__(self, *, configs: LiveConfigs) -> None:
        self._configs = configs
        self._commits: Commits | None = None

    @property
    def commits(self) -> "Commits":
        """Return the commits, created on first use."""
        self.ensure()
        assert self._commits is not None, "the commits were not created"
        return self._commits

    def ensure(self) -> None:
        """Create them. Raises OSError if the code cannot be imported for want of descriptors."""
        if self._commits is None:
            from syncline.node.lag.commits import Commits
            from syncline.node.lag.ends import KnownEnds

            config = self._configs.broker
            self._commits = Commits(
                KnownEnds(config.lag_commit_intervals),
                intervals=config.lag_commit_intervals,
                min_distance_ms=config.lag_commit_min_distance_ms,
            )

    # What the group coordinator tells.

    def term_began(self, partition: int, /) -> "TermCommits":
        """Return what hears of the commits of a new term."""
        return self.commits.term_began(partition)

    def term_ended(self, partition: int, /) -> None:
        """Forget the groups of a term."""
        self.commits.term_ended(partition)

    def check_invariants(self) -> None:
        """Assert what must hold between two callbacks of the loop."""
        if self._commits is not None:
            self._commits.check_invariants()
