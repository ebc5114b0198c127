"""Functions that modify functions."""
import types


def alias_function(fun, name, doc=None):
    alias = types.FunctionType(fun.__code__, fun.__globals__, str(name), fun.__defaults__, fun.__closure__)
    alias.__dict__.update(fun.__dict__)
    alias.__kwdefaults__ = fun.__kwdefaults__
    alias.__doc__ = doc if isinstance(doc, str) else "\nThis function is an alias of ``{}``.\n".format(fun.__name__) + (fun.__doc__ or "")
    return alias


def namespaced_function(function, global_dict, defaults=None, preserve_context=None):
    space = dict(function.__globals__, **{key: value for key, value in global_dict.items() if key.startswith("__")})
    made = types.FunctionType(function.__code__, space, function.__name__, defaults or function.__defaults__, function.__closure__)
    made.__dict__.update(function.__dict__)
    return made
