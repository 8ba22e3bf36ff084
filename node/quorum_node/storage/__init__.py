"""Durable storage of one replica: log, quorum-state, identity files, failure latch.

Owns every byte below `metadata.log.dir` and when it is durable. Must not know Raft's rules, sockets
or the event loop; callers decide what is written and in which order. All file formats are Apache
Kafka's, so stock tools can read the directory.
"""
