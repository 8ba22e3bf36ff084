"""What must hold at every step of a simulation, one small class each."""
