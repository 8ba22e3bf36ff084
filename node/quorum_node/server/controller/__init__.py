"""The active controller's I/O: its requests, when records are appended, and when answers are sent."""
