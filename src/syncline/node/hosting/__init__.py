"""Hosting: which partitions this broker has, in which role, and with which logs."""
