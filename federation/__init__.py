"""Federation of exchanges and queues between brokers. Arrives with a later release; see README.md."""
