"""The broker on a node: replicas of topics' partitions, their fetchers, its lease, and the APIs of its clients."""
