"""Consumer lag, as this broker sees it."""
