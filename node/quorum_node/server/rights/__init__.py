"""Who may do what on this node, at this moment: asked before a request of either port is handled."""
