"""`syncline reassign` and `syncline throttle`."""
