"""Arrow columns to raw record batches: plain calculations, no I/O, no Spark."""
