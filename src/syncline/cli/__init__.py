"""The command line: every command is a thin layer over a room that could be used without it."""
