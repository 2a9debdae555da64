"""The command `warren migrate`: moves definitions and messages from one broker to another while clients move."""
