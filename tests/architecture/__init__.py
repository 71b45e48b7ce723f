"""What keeps the house in order: who may import whom, and what the syntax tree shows."""
