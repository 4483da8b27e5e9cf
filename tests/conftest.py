"""What holds for all tests."""

from hypothesis import settings

# No test asserts seconds: by default an example that takes more than 0.2 s fails.
settings.register_profile("sihash", deadline=None)
settings.load_profile("sihash")
