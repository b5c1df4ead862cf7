"""The same models in our libraries and in the runtimes that a team would pick instead.

Two Pythons take part. The command runs in the project's own; whatever imports torch or a peer runs
in processes of the peers' Python, which has `requirements/peers.in` and nothing of ours:
`make`, `convert`, `worker`, `picture`, `exporting` and `runtimes/`.
"""
