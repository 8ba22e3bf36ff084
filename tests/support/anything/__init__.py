"""Rounds of random acts on a quorum: the spec's whole surface, and what people do to what the operator owns.

A seed decides a round (`drawing`), people's hands carry its acts out (`hands`, the families in `*_acts`), and the
round ends when the quorum is as wanted again (`settled`), with nothing lost and no harm done (`harm`).
"""
