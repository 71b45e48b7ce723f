"""What becomes of the pages of all logs: written out in time, kept or given back."""
