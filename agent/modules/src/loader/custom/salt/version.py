"""The version of Salt whose behaviour Pinch has."""
__version__ = "3008.5"
__version_info__ = (3008, 5)


class SaltStackVersion:
    string = full_info_all_versions = __version__
    major, minor, info = 3008, 5, (3008, 5)

    def __str__(self):
        return __version__


__saltstack_version__ = SaltStackVersion()
