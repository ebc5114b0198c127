"""The nested outputter."""
import salt.output

__opts__ = {}


def output(ret, **kwargs):
    return salt.output.out_format(ret, "nested", __opts__)
