"""The reports: functions that make tables from aggregates, and the list of all reports."""
