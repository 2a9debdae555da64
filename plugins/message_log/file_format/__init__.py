"""The files of the export, which the exporter writes and the job reads."""
