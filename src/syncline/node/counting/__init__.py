"""What happened so far: counters, how long acknowledgements take, and when a disk was slow."""
