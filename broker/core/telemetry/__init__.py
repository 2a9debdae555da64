"""Telemetry: the event exchange, the firehose, the log exchange, resource alarms and detailed rates."""
