"""The coordinator of classic consumer groups. PURE: no clock, no disk, no connection."""
