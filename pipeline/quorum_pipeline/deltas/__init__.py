"""The effect of a run of records on any state, without the state: parts of a log are reduced in parallel and
combined. PURE.
"""
