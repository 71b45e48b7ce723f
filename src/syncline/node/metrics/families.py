"""All metrics of a broker's own page, in the order in which it has them."""

from typing import Final

from syncline.node.metrics import lag_table, table

FAMILIES: Final = (*table.FAMILIES, *lag_table.GROUP_FAMILIES, *lag_table.FETCH_FAMILIES)
