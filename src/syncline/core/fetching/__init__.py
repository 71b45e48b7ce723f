"""Fetching: sessions, what wakes a parked fetch, how much an answer carries, and which replica a consumer reads."""
