"""The history of a cluster as tables: reads metadata logs and snapshots with Spark, and by itself.

`rows`, `state` and their like are pure; `files` reads disks; `spark` is the shell around both.
"""
