"""Methods of AMQP, by class."""
