"""What an operator hears of an address at which a listener can't listen.

Owns the words. Must not know sockets.
"""

import errno

from quorum_node.configuration.addresses import ListenerAddress
from quorum_node.configuration.properties import ConfigError

_REMEDIES = {
    errno.EADDRINUSE: "another process, or another listener of this node, has this port: end that process, or choose"
    " another port for one of them",
    errno.EADDRNOTAVAIL: "this machine has no such address: name one of its own, or 0.0.0.0 for all",
    errno.EACCES: "this user may not listen there: choose a port from 1024 on, or give the process the right",
}


def refused_address(key: str, address: ListenerAddress, error: OSError) -> ConfigError:
    """`key`: of the configuration, where the address stands."""
    remedy = _REMEDIES.get(error.errno or 0)
    text = f"{key}={address}: can't be bound: {error}"
    return ConfigError(f"{text}; {remedy}" if remedy else text)
