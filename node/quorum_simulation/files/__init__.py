"""A file system in memory that keeps synced data and may lose everything else."""
