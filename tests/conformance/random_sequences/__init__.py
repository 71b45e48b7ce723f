"""Random sequences: drawn from a seed, played on Apache Kafka and on Syncline side by side, and compared.

    python -m tests.conformance.random_sequences --seeds 0..99 --only groups

A hand-written sequence asks what its author thought of; a drawn one asks for what nobody did. The draws come from small
domains, so that states collide: a handful of partitions, producers, offsets, members and names. Whatever a run finds is
either mended, with a hand-written sequence that keeps it so, or listed in `expected`.
"""
