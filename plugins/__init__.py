"""Exchange types and services beside the broker. They arrive with later releases; see README.md."""
