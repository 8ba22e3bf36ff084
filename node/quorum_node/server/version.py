"""The version of the software, from the installed distribution."""

from importlib.metadata import PackageNotFoundError, version


def _installed_version() -> str:
    try:
        return version("metadataquorum")
    except PackageNotFoundError:
        return "unknown"


VERSION = _installed_version()
