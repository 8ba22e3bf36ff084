"""The HTTP admin API: FastAPI routes over one node; models in `quorum_node.api`."""
