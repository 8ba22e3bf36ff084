"""What should exist: full Kubernetes objects, one kind a file, built from the spec. Pure."""
