"""Commands by way of the HTTP API, for `warrenctl --url`: of Warren, or of RabbitMQ."""
