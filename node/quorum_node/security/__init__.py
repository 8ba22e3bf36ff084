"""Authentication and authorization: principals, permissions, SCRAM, and checks of certificates. PURE.

Files, sockets, clocks and randomness belong to the server, which passes bytes, times and random
bytes. Knows the messages of the protocol and the image of the metadata. Must not know the
controller, which uses it.
"""
