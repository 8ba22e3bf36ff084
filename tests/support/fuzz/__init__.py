"""Fuzzing: what is tried (`targets`), what it begins with (`seeds`), how it is run (`runner`)."""
