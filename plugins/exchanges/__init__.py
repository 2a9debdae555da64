"""Exchange types."""
