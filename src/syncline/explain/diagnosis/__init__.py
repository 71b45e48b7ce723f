"""From the journal's events to findings: what was wrong, and what it caused, as data without sentences."""
