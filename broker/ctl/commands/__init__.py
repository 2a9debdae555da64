"""The handlers of the commands: requests to the HTTP API of Warren or RabbitMQ."""
