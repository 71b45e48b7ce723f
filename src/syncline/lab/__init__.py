"""The lab: histories of replication played on real brokers, told step by step, with a picture of each.

A scenario starts broker processes of its own in a temporary directory, does to
them what the history asks for, and goes on from step to step when the brokers
themselves report what the step waits for, never after a time. So it comes out
the same every time, on a slow machine as well as on a fast one.
"""
