"""Where replicas should lie: a plan for a whole cluster that moves as little as it can (pure)."""
