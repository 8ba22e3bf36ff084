"""Fixtures of the cluster's own tests."""

import pytest
from testbed import lifecycle, project_images

from support.kind import Cluster, api_server, cluster, loaded_images, namespace

__all__ = ["api_server", "cluster", "loaded_images", "namespace", "shell_image"]


@pytest.fixture(scope="session")
def shell_image(cluster: Cluster) -> str:
    """An image with a shell and Python: the one that the project's own are built on."""
    image = project_images.python_base()
    lifecycle.load(cluster.name, [image])
    return image
