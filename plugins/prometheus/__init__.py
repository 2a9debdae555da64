"""Metrics for Prometheus, by the names that RabbitMQ gives them."""
