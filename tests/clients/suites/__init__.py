"""Runs the test suites of other clients against a broker; README.md has what they say of ours and of RabbitMQ."""
