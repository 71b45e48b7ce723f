"""The report about a move: its rates against its throttle, its progress, what clients felt; from the journal alone."""
