"""A workload that proves things: one writer, one checker, and the verdict over what they saw.

Writer and checker are processes of their own, outside the cluster under test. They share two JSON
lines files and the machine's monotonic clock, nothing else.
"""
