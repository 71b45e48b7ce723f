"""Golden traces: histories of replication, played by the core's own objects and written down line by line.

Each `NN-name.txt` tells one history. Lines that begin with `#` are its story, lines that begin with `>` are what
happens, and all other lines are what leaders, followers, controller and client do about it. A test plays the input and
compares the output; `python -m tests.core.traces --write` writes it anew, and the difference is reviewed like code.
"""
