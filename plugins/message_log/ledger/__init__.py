"""The ledger of the message log: facts of its files, and the check that every message is accounted for."""
