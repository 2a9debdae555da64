"""The broker for tests of other projects, as these use it."""
