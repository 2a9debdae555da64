"""The reports: functions that make tables of facts, and the list of them all."""
