"""Jobs: work that takes more than one turn of the event loop."""
