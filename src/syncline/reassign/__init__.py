"""Plans of moves: what to move where, how fast, and how it goes. Pure functions; commands read and change clusters."""
