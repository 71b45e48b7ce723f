"""Consumer lag: how far behind groups are in records, bytes and time, what that means, and why (KIP-489)."""
