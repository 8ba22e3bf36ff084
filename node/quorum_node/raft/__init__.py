"""The Raft core: events in, ordered outputs out; no clock, no disk, no network. Pure."""
