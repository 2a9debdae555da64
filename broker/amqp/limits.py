"""Limits and prefixes of AMQP 0-9-1 that several folders use."""

SHORT_STRING = 255  # bytes of a short string: names, routing keys, reply texts, keys of a field table
LONGEST_MS = 315_360_000_000  # ten years: the longest time to live or expiry, as in RabbitMQ
RESERVED = "amq."  # prefix of the names that clients must not declare
