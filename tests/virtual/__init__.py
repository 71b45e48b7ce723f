"""Tests of the proof room, and the proof itself."""
