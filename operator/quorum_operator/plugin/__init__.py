"""`kubectl quorum`: a quorum on a terminal. Needs kubectl and Python, and nothing else that this project needs."""
