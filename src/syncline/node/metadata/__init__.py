"""The metadata image and configurations that this broker knows, and its answers to Metadata requests."""
