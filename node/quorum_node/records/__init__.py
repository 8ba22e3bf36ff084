"""Record codecs: Kafka's v2 batches, KRaft control records, metadata records (pure)."""
