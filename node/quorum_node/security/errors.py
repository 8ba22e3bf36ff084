"""What is wrong with a setting of security. PURE."""


class SecuritySettingError(ValueError):
    """A value that can't be used. The message names the key, says why and what to do, and never shows a secret."""

    def __init__(self, key: str, why: str, value: str | None = None) -> None:
        """`value` is shown, so it must not be given for a key that holds a secret."""
        super().__init__(f"{key}: {why}" if value is None else f"{key}={value}: {why}")
        self.key = key
        self.why = why


def is_unicode(text: str) -> bool:
    """Whether a text can be written as UTF-8. One from a command line holds surrogates for bytes that could not be read."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
