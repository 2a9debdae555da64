"""Warren's own benchmark: `python -m tools.bench` (README.md beside this file says what it shows)."""
