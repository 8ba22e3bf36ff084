"""Why there is no release."""


class ReleaseError(Exception):
    """It can't be made; the message says what to do."""
