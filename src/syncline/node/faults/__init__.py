"""Injected faults: what a broker does to itself on request, for tests and demonstrations.

A fault is a rule: what it strikes, when, how often, for how long. `table` lists the kinds, `rules` holds one rule,
`registry` keeps the rules of one broker; `disk`, `links` and `requests` take effect. Without a rule no request passes
through any of it.
"""
