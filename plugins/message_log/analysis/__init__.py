"""The analysis: makes reports from the exported log, with Spark."""
