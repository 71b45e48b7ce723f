"""Kill tests of the sink: SIGKILL at 20 points of a streaming query, and each input once in the output."""
