"""Which request needs which right, who holds it by default, and for which node a caller may speak. PURE."""
