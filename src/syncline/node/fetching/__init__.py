"""Serving fetches: from a request to its answer, now or when there is enough to answer."""
