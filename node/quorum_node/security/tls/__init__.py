"""TLS and SASL of listeners as they are configured, and what is in the files: read, checked, explained. PURE.

The server reads the files and makes contexts of what comes out here. OpenSSL would say of most mistakes that a handshake
failed; a pair that does not match it even loads into a live context and breaks it.
"""
