"""Warren's own benchmark: `python -m tests.bench` (README.md beside this file says what it shows)."""
