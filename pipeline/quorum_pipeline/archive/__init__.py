"""How an archive is laid out: which directory holds which offsets, and which of them count (pure)."""
