"""Where an offset lies in bytes and in time, from which lag is computed."""
