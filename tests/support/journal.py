"""Journals without a worker thread."""

from warren.broker.storage.journal import Journal


def commit(journal: Journal) -> None:
    """Commit the batch that is being filled, which must not be empty."""
    assert commit_any(journal)


def commit_any(journal: Journal) -> bool:
    """Commit the batch that is being filled; return False if it is empty."""
    batch = journal.seal()
    if batch is None:
        return False
    batch.write()
    batch.sync()
    journal.committed(batch.number)
    return True
