"""The reports: functions that make tables from facts, and the list of all reports."""
