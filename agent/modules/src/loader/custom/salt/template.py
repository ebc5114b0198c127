"""Renders files."""
from salt import _pinch


def compile_template(template, renderers=None, default=None, blacklist=None, whitelist=None, saltenv="base", sls="", input_data="", **kwargs):
    if template == ":string:":
        return _pinch.call("slsutil.renderer", string=input_data, default_renderer=default or "jinja|yaml", saltenv=saltenv)
    return _pinch.call("slsutil.renderer", template, default_renderer=default or "jinja|yaml", saltenv=saltenv, **kwargs)


def compile_template_str(template, renderers=None, default=None, *args, **kwargs):
    return compile_template(":string:", default=default, input_data=template)


def check_render_pipe_str(pipestr, renderers, blacklist=None, whitelist=None):
    parts = [part.strip().partition(" ") for part in pipestr.split("|")]
    return [(renderers[name], line) for name, _, line in parts if name in renderers and name not in (blacklist or ())]
