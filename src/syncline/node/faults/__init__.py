"""Faults on purpose: what a broker does to itself when it is told to, for tests and demonstrations.

A fault is a rule: what it strikes, when, how often, for how long. `rules` says which; `registry` keeps those of one
broker, `disk`, `links` and `requests` make them felt. Without a rule none of it is on the way of a request.
"""
