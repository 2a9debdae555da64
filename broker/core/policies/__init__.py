"""Policies, runtime parameters and limits."""
