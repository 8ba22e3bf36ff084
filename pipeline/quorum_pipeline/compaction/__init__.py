"""Removes superseded records from a run of records, as log compaction does. PURE."""
