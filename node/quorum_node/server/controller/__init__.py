"""The active controller's I/O: who may ask for what, when records are appended, and when answers are sent."""
