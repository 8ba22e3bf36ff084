"""A file system in memory that keeps what was synced and may lose everything else."""
