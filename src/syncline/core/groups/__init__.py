"""Consumer groups as a replicated state machine."""
