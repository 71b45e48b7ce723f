"""When batches were appended: entries in memory and in files, and what a read tells of them."""
