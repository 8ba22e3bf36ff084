"""Pure planning: one observation in, exactly one step out."""
