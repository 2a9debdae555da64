"""Records of the metadata store, and validation of operators' input."""
