"""The event loop that all parts share: how long each holds it, deadlines, tasks, and work in slices."""
