"""TLS and SASL configuration of listeners, and the content of their files: parsed, checked,
explained. PURE.

The server reads the files and creates contexts from the results. For most mistakes OpenSSL would
only report a failed handshake, and loading a key that does not match its certificate would break a
context in use.
"""
