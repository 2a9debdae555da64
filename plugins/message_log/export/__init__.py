"""The export: records of messages and metrics, and the process that writes them as Parquet."""
