"""What a broker reports to Prometheus: names as Kafka's exporter gives them, values read at each scrape."""
