"""Raw record batches to Arrow columns: plain calculations, no I/O, no Spark."""
