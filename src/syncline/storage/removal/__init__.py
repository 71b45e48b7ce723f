"""What leaves a log: its end when histories part, its start by retention."""
