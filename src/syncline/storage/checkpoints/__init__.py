"""Small files beside the logs, replaced whole: what a broker knows of them after it has stopped."""
