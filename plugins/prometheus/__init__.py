"""Metrics for Prometheus under RabbitMQ's names."""
