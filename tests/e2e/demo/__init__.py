"""`make demo`: a quorum on kind grows, loses its leader and a disk, heals, shrinks. Nothing is lost."""
