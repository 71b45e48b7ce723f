"""Jobs: from the brokers to a finished result, one module each."""
