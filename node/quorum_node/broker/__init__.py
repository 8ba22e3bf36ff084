"""The data path of a broker, without I/O: replication of partitions by leader epochs, in-sync replicas and offsets. PURE."""
