"""The renderer `mako`, with the Python package Mako of this machine."""
import os
import sys
import urllib.parse


def lookup(salt, saltenv):
    """Returns the finder of included templates: file:// URLs, salt:// URLs, and paths below the file roots."""
    from mako.exceptions import TopLevelLookupException
    from mako.lookup import TemplateCollection, TemplateLookup
    from mako.template import Template

    local = TemplateLookup(directories="/")

    class Lookup(TemplateCollection):
        def adjust_uri(self, uri, filename):
            scheme = urllib.parse.urlparse(uri).scheme
            if scheme in ("salt", "file"):
                return uri
            if scheme:
                raise ValueError("Unsupported URL scheme(%s) in %s" % (scheme, uri))
            return local.adjust_uri(uri, filename)

        def get_template(self, uri, relativeto=None):
            if uri.startswith("file://"):
                return local.get_template(uri[len("file://"):])
            path = uri[len("salt://"):] if uri.startswith("salt://") else uri.lstrip("/")
            cached = salt["cp.cache_file"]("salt://" + path, saltenv=saltenv)
            if not cached:
                raise TopLevelLookupException("Can't locate template for uri %r" % uri)
            return Template(filename=cached, uri="/" + path, lookup=self)

    return Lookup()


def render(text, path, names):
    """Renders a text. `names` are the variables of the template."""
    try:
        import mako.exceptions
        from mako.lookup import TemplateLookup
        from mako.template import Template
    except ImportError:
        raise ImportError("The renderer mako needs the Python package Mako: install it for %s" % sys.executable)
    saltenv, sls = names.get("saltenv"), names.get("sls")
    if saltenv:
        finder = lookup(names["salt"], saltenv)
    else:
        finder = TemplateLookup(directories=[os.path.dirname(path)])
    uri = sls.replace(".", "/") if sls is not None else None
    try:
        return Template(text, strict_undefined=True, uri=uri, lookup=finder).render(**names)
    except Exception:
        raise ValueError(mako.exceptions.text_error_template().render())
