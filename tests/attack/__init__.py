"""Attacks on a local cluster, with a well-behaved client beside them: `python -m tests.attack`.

One row of `catalogue.py` is one case. An attacker process (`attacker.py`) builds all bytes beforehand and then plays
the row's streams (`stream.py`, `playing.py`); a neighbour process (`neighbour.py`) produces and consumes all the while;
this process watches the brokers from outside (`watch.py`, `holds.py`, `ledger.py`) and judges (`verdict.py`). All
traffic stays on 127.0.0.1.
"""
