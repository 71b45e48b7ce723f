"""What pictures are made of: shapes, scales, axes, labels, legends and colours. Knows nothing of what is drawn."""
