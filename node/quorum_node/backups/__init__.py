"""Backups of a quorum's metadata in a directory: their form, their check, and the folder that holds several."""
