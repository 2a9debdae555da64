"""The conservation check: what entered a queue left it or is still there, and what a link took has come."""
