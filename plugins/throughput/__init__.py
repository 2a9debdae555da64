"""Throughput: every message and the figures of the broker, exported as Parquet, and the job that reads them."""
