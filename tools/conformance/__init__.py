"""Runner of the test suites of other clients against a broker; README.md has the results with Warren and RabbitMQ."""
