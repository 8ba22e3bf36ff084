"""Durable storage of one replica: log, quorum-state, identity files, failure latch.

Owns every byte below `metadata.log.dir` and when it is durable. Knows nothing of Raft's rules, of
sockets or of the event loop; callers decide what to write and in which order. All file formats are
Apache Kafka's, so that stock tools read the directory.
"""
