"""A workload that verifies consistency: one writer, one checker, and the check of their records.

Writer and checker are processes outside the tested cluster. They share two files with JSON lines and the machine's
monotonic clock.
"""
