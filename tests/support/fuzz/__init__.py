"""Fuzzing: the targets (`targets`), the initial corpus (`seeds`), and the runner (`runner`)."""
