"""The history of a cluster as tables, read from metadata logs and snapshots, with or without Spark.

`rows`, `state` and similar packages are pure; `files` reads disks; `spark` has the Spark jobs and data sources.
"""
