"""Values that a schema registry describes."""
