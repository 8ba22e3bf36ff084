"""Rounds of random actions on a quorum: all fields of the spec, and manual changes to the operator's objects.

A seed determines a round (`drawing`). `operations` and the families in `*_acts` carry its actions out. The round ends when the quorum matches
its spec again (`settled`), no data is lost and the operator did no harm (`harm`).
"""
