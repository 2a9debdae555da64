"""The ties of the commands to the system: the unit of systemd, completion in shells, and the manual pages."""
