"""The connection to an upstream broker: endpoint, TLS, handshake, transport and channels."""
