"""Backups of a quorum's metadata in a directory: their format, their check, and folders of several
backups.
"""
