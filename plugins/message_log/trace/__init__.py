"""The command `warren trace`: the way of one message through all brokers, read from the export without Spark."""
