"""What `format("syncline")` reads: options, planning, and tasks. Only `spark` knows Spark."""
