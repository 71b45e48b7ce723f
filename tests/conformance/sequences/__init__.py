"""The sequences, grouped by what they ask about; every module here is found by the catalogue."""
