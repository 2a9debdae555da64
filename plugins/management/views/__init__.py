"""Views that several kinds of routes have in common: the fields of objects under RabbitMQ's names."""
