"""Certificates of a quorum: who holds which, when each is renewed, what is wrong with one, and how the authority changes.

Nothing here reads or writes Kubernetes, and no clock is read: `now` is handed in, in seconds since 1970 by the API server's
clock (`kube/clock.py`). Keys are drawn in `issuing.py` alone.

* `holders.py`: subjects and names.  * `lifetimes.py`: when.  * `issuing.py`: keys and certificates.
* `pem.py`: certificates as they are read.  * `checks.py`: what is wrong, in words.  * `documents.py`: Secrets and the trust.
* `look.py`: objects to facts (`facts.py`).  * `rotation.py`: the next step (`steps.py`).
"""
