"""Exchange types and services beside the broker; see README.md."""
