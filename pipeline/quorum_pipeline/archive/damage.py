"""Texts about damage of an archive and its remedy, which several readers report. Data only."""

REMOVED = "directories were removed. Restore them from a copy, or write a new archive into an empty directory"
REPLACED = "files were removed, added or replaced. Restore them from a copy, or write a new archive"


def damaged(marker: object) -> str:
    """Message about a marker that can't be parsed; `marker` is its path or URI."""
    return f"{marker} is damaged: restore the file from a copy of the archive"
