"""What a broker tells Prometheus: names as Kafka's exporter gives them, values looked up when they are asked for."""
