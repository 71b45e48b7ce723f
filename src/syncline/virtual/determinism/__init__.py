"""What makes two runs of one seed the same run, and shows that they are."""
