"""The report about the page cache: how much memory it needs, who makes its misses, and whether measurements agree."""
