"""What all pictures are made of."""
