"""The comparison with a running RabbitMQ 4: HTTP API, AMQP errors and command line (see README.md)."""
