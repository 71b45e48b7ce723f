"""The controller's decisions: leaders, brokers, topics and configurations, as functions of the metadata image."""
