"""Tests of the client: messages, connections, retries."""
