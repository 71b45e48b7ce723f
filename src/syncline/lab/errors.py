"""The error of a run that fails."""

from syncline.local.layout import LocalClusterError


class LabError(LocalClusterError):
    """A scenario cannot continue; the message says what it waited for and what it saw."""
