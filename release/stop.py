"""The error of a failed release."""


class ReleaseError(Exception):
    """The release can't be built; the message says what to do."""
