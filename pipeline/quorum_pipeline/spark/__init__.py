"""The shell: Spark's data sources, sessions and queries. What they carry is decided in the other packages."""
