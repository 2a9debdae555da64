"""The reading side: from the exported log to reports, with Spark."""
