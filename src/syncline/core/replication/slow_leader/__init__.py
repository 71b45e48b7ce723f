"""KIP-501: a leader whose own disk is slow does not blame its followers, and hands leadership on if that helps.

Off by default (`follower.fetch.pending.reads.insync.enable`); a partition for which it is off has none of this: its
`LeaderPartition.slow_leader` is None. Read `docs/slow-leaders.md` first, then `slow_leader`.
"""
