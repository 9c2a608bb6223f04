"""What holds for all tests."""

from hypothesis import settings

# Equal code gives equal verdicts, on a slow machine too.
settings.register_profile("hgeo", deadline=None, derandomize=True)
settings.load_profile("hgeo")
