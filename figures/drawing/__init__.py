"""How figures are drawn, a module for each kind; the modules above describe what is drawn.

Apart, so that a study, which describes its figures, does not depend on how they are drawn.
"""
