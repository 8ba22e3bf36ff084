"""Pure planning: what was observed goes in, exactly one step comes out."""
