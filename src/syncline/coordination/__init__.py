"""The store of cluster metadata, and which broker may write to it."""
