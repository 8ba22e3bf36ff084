"""Computes a reassignment plan for a whole cluster with few moves. PURE."""
