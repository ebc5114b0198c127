"""Templates of files, rendered by the program."""
from salt import _pinch


def _engine(name):
    def rendered(sfn, string=False, **kwargs):
        try:
            data = _pinch.call("slsutil.renderer", sfn, default_renderer=name)
            return {"result": True, "data": data}
        except Exception as error:
            return {"result": False, "data": str(error)}

    return rendered


JINJA, PY = _engine("jinja"), _engine("py")
TEMPLATE_REGISTRY = {"jinja": JINJA, "py": PY}
