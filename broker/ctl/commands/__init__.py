"""The commands, each carried out by requests to the HTTP API of Warren, or of RabbitMQ."""
