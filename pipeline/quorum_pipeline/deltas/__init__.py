"""What a run of records does to any state, without the state: parts of a log are reduced side by side, and the results put together. PURE."""
