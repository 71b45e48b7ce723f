"""A broker's way to the controller, and its candidacy for that role."""
