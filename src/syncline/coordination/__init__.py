"""Where cluster metadata lives, and which broker may write it."""
