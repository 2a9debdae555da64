"""The command `warren migrate`: moves definitions and messages to another broker while clients move."""
