"""Statistics: counters, samples of them over time, and rates."""
