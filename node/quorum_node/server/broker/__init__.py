"""The broker on a node: replicas of topics' partitions, their fetchers, its lease, and what its clients ask."""
