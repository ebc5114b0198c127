"""The configuration as the program reads it."""
import os

from salt import _pinch


def _config(path, env_var, defaults, role):
    return dict(defaults or {}, **_pinch.request({"config": os.environ.get(env_var) or path, "role": role}))


def minion_config(path, env_var="SALT_MINION_CONFIG", defaults=None, **kwargs):
    return _config(path, env_var, defaults, "minion")


def master_config(path, env_var="SALT_MASTER_CONFIG", defaults=None, **kwargs):
    return _config(path, env_var, defaults, "master")


client_config = mminion_config = master_config


def load_config(path, env_var, default_path=None, exit_on_config_errors=True):
    import salt.utils.yaml

    path = os.environ.get(env_var) or path or default_path
    if not os.path.isfile(path):
        return {}
    with open(path) as file:
        return salt.utils.yaml.safe_load(file) or {}


def __getattr__(name):
    if name in ("DEFAULT_MINION_OPTS", "DEFAULT_MASTER_OPTS"):
        return _pinch.request({"config": os.devnull})
    raise AttributeError(name)
