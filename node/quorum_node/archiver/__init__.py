"""`quorum-backup`: writes backups of a running quorum, which it reads as nobody's replica, and checks them."""
