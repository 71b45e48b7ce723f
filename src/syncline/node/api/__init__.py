"""The APIs that a broker serves, a file per API key: decode, decide, reply."""
