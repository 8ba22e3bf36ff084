"""Imports the modules of the testbed; its folder is no package of tests/, so its path is added."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "e2e" / "kind"))

from testbed import (
    kafka_image,
    lifecycle,
    network,
    nodes,
    programs,
    project_images,
    prometheus,
)
from testbed.commands import TestbedError, run
from testbed.disks import Disk, Disks, DiskState
from testbed.pins import JAVA_BASE_IMAGE, KAFKA_IMAGE, PYTHON_BASE_IMAGE
from testbed.places import REPOSITORY, kubeconfig_path, state_directory
from testbed.volumes import STORAGE_CLASS, Volumes

__all__ = [
    "JAVA_BASE_IMAGE",
    "KAFKA_IMAGE",
    "PYTHON_BASE_IMAGE",
    "REPOSITORY",
    "STORAGE_CLASS",
    "Disk",
    "DiskState",
    "Disks",
    "TestbedError",
    "Volumes",
    "kafka_image",
    "kubeconfig_path",
    "lifecycle",
    "network",
    "nodes",
    "programs",
    "project_images",
    "prometheus",
    "run",
    "state_directory",
]
