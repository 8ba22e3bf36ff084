"""What goes wrong in a way that a person can do something about.

Owns the type that every command reports as one line and an exit code. Knows nothing of what was tried.
"""


class PipelineError(Exception):
    """Wrong input, or damage that was found; the text says where, and what to do."""
