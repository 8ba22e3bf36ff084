"""SCRAM-SHA-256 and SCRAM-SHA-512 on the server (RFC 5802, RFC 7677), compatible with Kafka's
clients. PURE.

Own code, because existing libraries prepare names and passwords by SASLprep, which Kafka does not.
So a user could have another key than on a broker. They also refuse the authorization id that Kafka
permits.
"""
