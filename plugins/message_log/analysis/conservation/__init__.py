"""The conservation check: all messages that entered a queue left it or are in it, and links lost none."""
