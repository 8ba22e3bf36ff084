"""Errors that the user can act on. Every command reports them as one line and an exit code."""


class PipelineError(Exception):
    """Invalid input or detected damage; the text contains the place and the remedy."""
