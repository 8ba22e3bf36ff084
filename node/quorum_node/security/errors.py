"""Errors in security settings. PURE."""


class SecuritySettingError(ValueError):
    """An invalid value. The message names the key, the reason and the fix, and never shows a secret."""

    def __init__(self, key: str, why: str, value: str | None = None) -> None:
        """`value` is shown, so it must not be passed for a key that contains a secret."""
        super().__init__(f"{key}: {why}" if value is None else f"{key}={value}: {why}")
        self.key = key
        self.why = why


def is_unicode(text: str) -> bool:
    """Whether a text can be encoded as UTF-8.

    Text from a command line has surrogates for undecodable bytes.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
