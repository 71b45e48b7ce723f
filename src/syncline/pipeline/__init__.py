"""The data pipeline: topics in and out of Spark, the journal as tables, and the report."""
