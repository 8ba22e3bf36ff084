"""The disk under all replicas: free space, a flush that hangs, damage that nobody has read yet."""
