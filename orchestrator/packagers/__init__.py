"""Packages of delivered libraries, for developers of apps.

`deliver` makes a variant's folder, `registry.PACKAGERS` the packages of one app's folders.
"""
