"""Replication of one partition: its leader, its followers, the ISR, the watermark, epochs and truncation."""
