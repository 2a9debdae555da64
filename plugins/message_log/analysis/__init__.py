"""The analysis of the message log: facts of its files, the check that every message is accounted for, and reports."""
