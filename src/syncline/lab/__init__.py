"""The lab: histories of replication played on real brokers, printed step by step, with a picture of each.

A scenario starts its own broker processes in a temporary directory, does to
them what the history asks for, and continues when the brokers themselves report
what a step waits for, never after a fixed time. So it comes out the same every
time, on slow machines and on fast ones.
"""
