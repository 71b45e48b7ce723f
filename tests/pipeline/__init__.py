"""Tests of the pipeline room."""
