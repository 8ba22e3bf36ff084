"""The Raft node of a metadata quorum: a sans-I/O core, a durable log, and Kafka's wire protocol."""
