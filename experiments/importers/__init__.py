"""Measurements that others published, read into records with their origin.

One module a format, with two functions: ``detects(source)`` tells by the content whether a file is
of the format, and ``read(source)`` gives what it says as ``Imported`` or raises ``RefusedError``
(both of ``experiments.importers.imported``).  What has no unit, or would have to be guessed, is
refused by name.
"""
