"""Talk with the Kubernetes API: observe what is, apply what should be, name what went wrong."""
