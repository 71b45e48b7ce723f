"""Partition logs on a disk: segments, indexes, checkpoints, recovery, retention, behind the Disk port."""
