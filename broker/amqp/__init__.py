"""The vocabulary of AMQP 0-9-1: errors, field tables and basic properties."""
