"""Asyncio in virtual time: unmodified brokers and clients on a simulated network and disk."""
