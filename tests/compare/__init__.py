"""The comparison with a running RabbitMQ 4: HTTP API, AMQP refusals and command line (see README.md)."""
