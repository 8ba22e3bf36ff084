"""An `ApplierPort` for tests: no image was made in advance, and failures are recorded."""

import asyncio

from quorum_node.image.cluster_image import ClusterImage
from quorum_node.server.controller.speculative_images import SpeculativeImages


class RecordingPort:
    """`failures`: the errors of reading the log."""

    def __init__(self, known: SpeculativeImages | None = None) -> None:
        self.known = known or SpeculativeImages()
        self.failures: list[Exception] = []
        self.noticed = asyncio.Event()

    def image_behind(
        self, image: ClusterImage, base_offset: int, end_offset: int, epoch: int
    ) -> ClusterImage | None:
        """See `ApplierPort`."""
        return self.known.behind(image, base_offset, end_offset, epoch)

    def applied(self, size_bytes: int) -> None:
        """See `ApplierPort`."""

    def image_changed(self) -> None:
        """See `ApplierPort`."""

    def unreadable(self, error: Exception) -> None:
        """See `ApplierPort`."""
        self.failures.append(error)
        self.noticed.set()
