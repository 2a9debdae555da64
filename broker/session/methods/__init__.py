"""Handlers of AMQP methods, by class."""
