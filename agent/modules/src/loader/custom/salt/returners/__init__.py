"""The options of returners."""


def get_returner_options(virtualname=None, ret=None, attrs=None, **kwargs):
    """Returns the options that are set: of the call (ret_kwargs), of the alternative configuration (ret_config), or of the returner."""
    ret, defaults = ret or {}, kwargs.get("defaults") or {}
    look = _lookup(kwargs.get("__salt__") or {}, kwargs.get("__opts__") or {})
    prefixes = ["%s.%s" % (ret["ret_config"], virtualname)] if ret.get("ret_config") else []
    options = {}
    for option, name in (attrs or {}).items():
        value = defaults.get(option)
        for prefix in prefixes + [virtualname]:
            inside = look(prefix)
            found = inside.get(name) if isinstance(inside, dict) else None
            found = look("%s.%s" % (prefix, name)) if found is None else found
            if found is not None and found != "":
                value = found
                break
        if value is not None and value != "":
            options[option] = value
    profile = look(options.get(kwargs.get("profile_attr"), "")) or {}
    for option, name in (kwargs.get("profile_attrs") or {}).items() if profile else ():
        options[option] = profile.get("%s.%s" % (virtualname, name))
    options.update(ret.get("ret_kwargs") or {})
    return options


def _lookup(functions, opts):
    """Returns the function that looks an option up: in the grains and the pillar too where there is config.option."""
    if "config.option" not in functions:
        return opts.get
    option = functions["config.option"]
    return lambda key: (opts[key] if key in opts else option(key)) if key else None
