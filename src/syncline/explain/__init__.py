"""From the journal's events to findings (`diagnosis`), from findings to sentences (`words`); on `model` alone.

`words` imports `diagnosis`; the contract "no cycles" forbids the other direction, so no finding rests on a sentence.
"""
