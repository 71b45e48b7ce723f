"""Record batches as Kafka lays them out (magic 2): headers, checks, records, builders. Pure."""
