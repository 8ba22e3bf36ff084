"""A node whose software has no pre-vote: the real one, with Vote up to version 1 only.

It announces no later version in ApiVersions and refuses later ones, so it sends none: like every Kafka controller before pre-vote. Run as
a process in place of `quorum_node.server`.
"""

import sys

from quorum_node.protocol import apis
from quorum_node.server.process.main import main

if __name__ == "__main__":
    object.__setattr__(apis.VOTE, "max_version", 1)
    sys.exit(main())
