"""Why a plan is refused: one sentence, in the words of Kafka's tool where it has the refusal, too."""


class PlanError(Exception):
    """A file, a broker list or a plan that no cluster can carry out."""
