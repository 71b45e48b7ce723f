"""The command line: every command is a thin layer over a room that also works without it."""
