"""Options of Spark readers and writers that both have: brokers, names of Kafka's configurations, values."""
