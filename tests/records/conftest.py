"""Property tests here have no deadline: how long one example takes depends on who else uses the machine."""

from hypothesis import settings

settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")
