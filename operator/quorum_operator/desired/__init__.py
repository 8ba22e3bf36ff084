"""Pure builders of the Kubernetes objects of a MetadataQuorum, one kind per file."""
