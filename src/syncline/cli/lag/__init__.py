"""`syncline lag`, and what a reset of offsets would do."""
