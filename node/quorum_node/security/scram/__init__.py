"""SCRAM-SHA-256 and SCRAM-SHA-512, the server's side (RFC 5802, RFC 7677), as Kafka's clients speak it. PURE.

Our own code, and little of it: the libraries that there are prepare names and passwords by SASLprep, which Kafka does not, so
a user could have another key here than on a broker; and they refuse the authorization id that Kafka allows.
"""
