"""The threads of log directories, which a test can wait for without giving up its turn of the loop."""

from quorum_node.server.broker.directory_threads import DirectoryThreads


class AwaitedThreads(DirectoryThreads):
    """`finish` is for tests that go on in the same turn, and for virtual time, which can't wait for threads."""

    def finish(self) -> None:
        """Wait for all work, and for what its results begin, and take the results."""
        while self.unfinished:
            ended = self._ended.get(timeout=60)
            self.unfinished -= 1
            ended()
            if not self.unfinished:
                self._turn_ended()

    def finish_found(self) -> None:
        """Wait for the first work only, which looks for the logs of one directory."""
        ended = self._ended.get(timeout=60)
        self.unfinished -= 1
        ended()
