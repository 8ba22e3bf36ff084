"""The layout of an archive: the offsets of its directories, and which directories are valid. PURE."""
