"""What holds for all tests: how long hypothesis may take is not a property of the code."""

from hypothesis import settings

settings.register_profile("barnabas", deadline=None)
settings.load_profile("barnabas")
