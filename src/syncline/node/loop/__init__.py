"""One event loop that many share: what time it is, how long it was held, and work that is done in parts."""
