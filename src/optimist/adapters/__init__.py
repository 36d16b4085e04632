"""The bonus inside the training loop you already have: one module a host, each of which needs its host installed.

``gymnasium_wrapper`` for any vector environment, ``rlexplore`` in the shape of RLeXplore's rewards, ``sb3`` and
``torchrl`` for those libraries. Importing this package imports none of them.
"""
