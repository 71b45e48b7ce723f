"""A broker's connections to the controller, and its candidacy for that role."""
