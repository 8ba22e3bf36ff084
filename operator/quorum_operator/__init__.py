"""The Kubernetes operator: it turns a `MetadataQuorum` into voters and keeps them alive."""
