"""Segments, the files of a log: what may go into them, their indexes, and how batches are found in them."""
