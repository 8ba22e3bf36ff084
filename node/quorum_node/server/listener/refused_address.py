"""Error messages for an address on which a listener can't listen.

Must not know sockets.
"""

import errno

from quorum_node.configuration.properties import ConfigError
from quorum_node.host_port import ListenerAddress

_REMEDIES = {
    errno.EADDRINUSE: "another process, or another listener of this node, uses this port: stop that process, or choose"
    " another port for one of them",
    errno.EADDRNOTAVAIL: "this machine does not have this address: use one of its own, or 0.0.0.0 for all",
    errno.EACCES: "this user may not listen on this port: choose a port from 1024 on, or grant the process the capability",
}


def refused_address(key: str, address: ListenerAddress, error: OSError) -> ConfigError:
    """The error; `key`: the configuration key of the address."""
    remedy = _REMEDIES.get(error.errno or 0)
    text = f"{key}={address}: can't be bound: {error}"
    return ConfigError(f"{text}; {remedy}" if remedy else text)
