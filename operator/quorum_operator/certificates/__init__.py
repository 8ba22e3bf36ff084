"""Certificates of a quorum: holders, renewal, checks, and rotation of the authority.

This package accesses neither Kubernetes nor a clock: `now` is a parameter, in seconds since 1970 by the API server's
clock (`kube/clock.py`). Only `issuing.py` generates keys.

* `holders.py`: subjects and names. * `lifetimes.py`: validity and renewal times. * `issuing.py`: keys and
  certificates.
* `pem.py`: parsing. * `checks.py`: problems and their messages. * `documents.py`: Secrets and the trust bundle.
* `look.py`: objects to facts (`facts.py`). * `rotation.py`: the next step (`steps.py`).
"""
