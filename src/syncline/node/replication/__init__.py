"""Following other brokers: fetches what they lead, into the logs of this one."""
