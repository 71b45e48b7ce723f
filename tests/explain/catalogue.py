"""All incidents."""

from . import incidents, unfit_incidents  # noqa: F401 - they enter theirs
from .incident import CATALOGUE, Incident

__all__ = ["CATALOGUE", "Incident"]
