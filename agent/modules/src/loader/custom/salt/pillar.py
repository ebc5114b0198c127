"""Pillar, compiled by the program."""
from salt import _pinch


class Pillar:
    def __init__(self, pillarenv=None):
        self.pillarenv = pillarenv

    def compile_pillar(self, *args, **kwargs):
        return _pinch.call("pillar.items", **({"pillarenv": self.pillarenv} if self.pillarenv else {}))


def get_pillar(opts, grains, minion_id, saltenv=None, ext=None, funcs=None, pillar_override=None, pillarenv=None, **kwargs):
    return Pillar(pillarenv)
