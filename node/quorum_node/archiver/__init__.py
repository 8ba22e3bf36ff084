"""`quorum-backup`: writes backups of a running quorum and checks them. It reads without a replica id."""
