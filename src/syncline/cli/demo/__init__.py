"""`syncline demo`."""
