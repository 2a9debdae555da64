"""Warren, an AMQP 0-9-1 broker: the package that holds the folders broker, federation, plugins and testing."""
