"""Injected faults: faults that a broker causes in itself on request, for tests and demonstrations.

A fault is a rule: what it strikes, when, how often, for how long. `table` lists the kinds, `rules` has the rule itself,
`registry` keeps the rules of one broker; `disk`, `links` and `requests` apply them. Without a rule, requests do not
pass through these modules.
"""
