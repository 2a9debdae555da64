"""The process: clock, worker threads, memory, garbage collection and the watch over the event loop."""
