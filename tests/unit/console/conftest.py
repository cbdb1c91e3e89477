"""NiceGUI is loaded once, with its warnings left alone: what it uses loads kafka-python where that is installed, which
calls what newer versions of Python deprecate.
"""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import nicegui  # noqa: F401
