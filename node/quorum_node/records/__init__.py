"""What a log holds: record batches, control records and metadata records, as bytes and back. Pure."""
