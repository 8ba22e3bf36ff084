"""Fixtures of the cluster's own tests."""

import pytest

from support.kind import api_server, cluster, loaded_images, namespace

__all__ = ["api_server", "cluster", "loaded_images", "namespace", "shell_image"]


@pytest.fixture(scope="session")
def shell_image(loaded_images: tuple[str, ...]) -> str:
    """An image with a shell and Python: the node's own, which is needed on the workers anyway."""
    return loaded_images[0]
