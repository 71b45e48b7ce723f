"""A cluster on this machine: one supervisor, its broker processes, their ports and their data directory."""
