"""The recorded differential: what Apache Kafka answers, and whether Syncline answers the same.

`sequences/` declares requests, `recorded/` holds Apache Kafka's normalised replies, `test_conformance.py` replays the
requests against Syncline and compares. `python -m tests.conformance.live` records again.
"""
