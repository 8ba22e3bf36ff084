"""The disk that all replicas share: free space, hanging flushes, and damage that no reader has found yet."""
