"""The lab: histories of replication played on real brokers, printed step by step, with a picture of each.

A scenario starts its own broker processes in a temporary directory and performs
the history step by step. A step ends when the brokers report the state that it
waits for, never after a fixed time. So the outcome is the same every time, on
slow machines and on fast ones.
"""
