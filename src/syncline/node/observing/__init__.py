"""What this broker journals, and what it observes of itself and of others."""
