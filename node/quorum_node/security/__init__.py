"""Who is who, and who may what: principals, rights, SCRAM, and what is asked of certificates. PURE.

Files, sockets, clocks and chance belong to the server: it hands in bytes, the time and random bytes. Knows the messages
of the protocol and the image of the metadata. Must not know the controller, which asks it.
"""
