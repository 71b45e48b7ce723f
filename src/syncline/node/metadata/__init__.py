"""What this broker knows of the cluster: its image, configurations, and what clients are told of them."""
