"""Loads the node into the process that nodes are forked from (`warm_process`).

Owns what each node would otherwise do again after its start: it loads the modules of all roles and compiles the codecs, 0.5 s of CPU. A fork
still runs the complete warm-up of its codecs, and finds each compiled. Nodes that start normally do all of it.
"""

import gc

import pydantic.v1  # noqa: F401 # FastAPI loads it with the first application

import quorum_node.server.process.broker_process
import quorum_node.server.process.combined_process
import quorum_node.server.process.main  # noqa: F401 # these are only loaded
from quorum_node.server.process.codec_warmup import codecs_in_order

for compile_one, message, version in codecs_in_order():
    compile_one(message, version)
# A collection in a fork would copy the pages of all objects that it visits.
gc.collect()
gc.freeze()
