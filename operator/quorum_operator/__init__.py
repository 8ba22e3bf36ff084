"""The Kubernetes operator: it creates the members of a `MetadataQuorum` and repairs them."""
