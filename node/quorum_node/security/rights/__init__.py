"""Permissions: what each request needs, which roles have it, and for which node a caller may act. PURE."""
