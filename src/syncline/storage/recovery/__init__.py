"""From files to a log that can be trusted: recovery, damage, and what is put back from other copies."""
