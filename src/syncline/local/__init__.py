"""A cluster on this machine: a supervisor, its broker processes, their ports and their data directory."""
