"""Queues: messages, consumers, expiry, dead-lettering and flow control."""
