"""How far groups are behind, as brokers measure it."""
