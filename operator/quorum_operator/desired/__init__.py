"""Pure builders of the Kubernetes objects that a MetadataQuorum is made of, one kind a file."""
