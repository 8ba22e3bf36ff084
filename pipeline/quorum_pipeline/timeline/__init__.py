"""Events of a cluster and their durations, derived from its log. PURE."""
