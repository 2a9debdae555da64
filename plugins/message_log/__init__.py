"""Message log: the export of all messages and the broker's metrics as Parquet, and the job that analyses it."""
