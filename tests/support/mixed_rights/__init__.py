"""Requests that mix items that the sender may use with others, and two clusters to send them to."""
