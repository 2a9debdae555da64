"""Views: the fields of each kind of object under RabbitMQ's names."""
