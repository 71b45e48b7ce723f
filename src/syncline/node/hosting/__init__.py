"""Hosting: which partitions this broker has, in which role, and what becomes of their logs."""
