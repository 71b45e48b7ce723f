"""From the journal's events to conditions, to causes, to sentences; knows `model` alone."""
