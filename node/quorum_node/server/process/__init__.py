"""The node put together: roles and rooms made, started and stopped in order."""
