"""What happens when records that a query should read are gone: an error, or a line in the log."""

import logging

from syncline.pipeline.errors import DataLossError

log = logging.getLogger(__name__)


def report_loss(what: str, *, fail: bool) -> None:
    """Raise `DataLossError` for what is gone, or write it to the log; `fail` is the option `failOnDataLoss`."""
    if fail:
        raise DataLossError(f"{what}; set the option failOnDataLoss to false to go on without them")
    log.warning("records are lost to this query: %s", what)
