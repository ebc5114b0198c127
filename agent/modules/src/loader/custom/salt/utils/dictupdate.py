"""Merging dictionaries."""
import collections.abc
import copy


def update(dest, upd, recursive_update=True, merge_lists=False):
    if not (isinstance(dest, collections.abc.Mapping) and isinstance(upd, collections.abc.Mapping)):
        raise TypeError("Cannot update using non-dict types in dictupdate.update()")
    for key, value in upd.items():
        old = dest.get(key)
        if recursive_update and isinstance(old, collections.abc.Mapping) and isinstance(value, collections.abc.Mapping):
            dest[key] = update(old, value, recursive_update, merge_lists)
        elif recursive_update and merge_lists and isinstance(old, list) and isinstance(value, list):
            dest[key] = old + [item for item in value if item not in old]
        else:
            dest[key] = value
    return dest


def merge_list(obj_a, obj_b):
    return {key: ([obj_a[key]] if key in obj_a else []) + ([obj_b[key]] if key in obj_b else []) for key in list(obj_a) + list(obj_b)}


def merge_recurse(obj_a, obj_b, merge_lists=False):
    return update(copy.deepcopy(obj_a), obj_b, merge_lists=merge_lists)


def merge_aggregate(obj_a, obj_b):
    return merge_recurse(obj_a, obj_b, True)


def merge_overwrite(obj_a, obj_b, merge_lists=False):
    return dict(copy.deepcopy(obj_a), **{key: obj_b[key] for key in obj_b})


def merge(obj_a, obj_b, strategy="smart", renderer="yaml", merge_lists=False):
    if strategy == "list":
        return merge_list(obj_a, obj_b)
    if strategy == "overwrite":
        return merge_overwrite(obj_a, obj_b)
    if strategy == "none":
        return merge_recurse(obj_a, obj_b)
    return merge_recurse(obj_a, obj_b, merge_lists)


def _holder(in_dict, keys, delimiter):
    parts = keys.split(delimiter) if isinstance(keys, str) else list(keys)
    for part in parts[:-1]:
        if not isinstance(in_dict.get(part), dict):
            in_dict[part] = {}
        in_dict = in_dict[part]
    return in_dict, parts[-1]


def set_dict_key_value(in_dict, keys, value, delimiter=":", ordered_dict=False):
    holder, key = _holder(in_dict, keys, delimiter)
    holder[key] = value
    return in_dict


def _changing(change, empty):
    def changed(in_dict, keys, value, delimiter=":", ordered_dict=False):
        from salt.exceptions import SaltInvocationError

        holder, key = _holder(in_dict, keys, delimiter)
        if holder.get(key) is None:
            holder[key] = empty()
        try:
            change(holder[key], value)
        except (AttributeError, TypeError, ValueError) as error:
            raise SaltInvocationError("The last key contains a {}, which cannot take the value: {}".format(type(holder[key]), error))
        return in_dict

    return changed


update_dict_key_value = _changing(lambda old, value: old.update(value), dict)
append_dict_key_value = _changing(lambda old, value: old.append(value), list)
extend_dict_key_value = _changing(lambda old, value: old.extend(value), list)


def ensure_dict_key(in_dict, keys, delimiter=":", ordered_dict=False):
    holder, key = _holder(in_dict, keys, delimiter)
    if not isinstance(holder.get(key), dict):
        holder[key] = {}
    return in_dict
