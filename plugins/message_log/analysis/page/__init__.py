"""The report as one HTML page, which works offline: sections with the worst first, tables, and charts."""
