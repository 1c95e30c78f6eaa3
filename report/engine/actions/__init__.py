"""The work of the steps, one module a kind; each is run by ``perform`` and imports what it needs.

A module here is the root of the code that its steps depend on.  ``perform`` reads what earlier
steps made from the stage, a folder laid out like ``out/``, and writes what it makes into it.
"""
