"""Ids, offsets, epochs, error codes, configurations, metadata and journal events: words that every room shares."""
