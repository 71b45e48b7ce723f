"""Real broker processes under kill, pause, bad input and full disks: what was acknowledged is still there."""
