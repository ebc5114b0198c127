"""Data structures."""
import collections.abc
import copy
import fnmatch
import re

from salt.utils.stringutils import to_bytes, to_str


class CaseInsensitiveDict(collections.abc.MutableMapping):
    def __init__(self, init=None, **kwargs):
        self._data = {}
        self.update(init or {}, **kwargs)

    def __len__(self):
        return len(self._data)

    def __setitem__(self, key, value):
        self._data[key.lower()] = (key, value)

    def __delitem__(self, key):
        del self._data[key.lower()]

    def __getitem__(self, key):
        return self._data[key.lower()][1]

    def __iter__(self):
        return (key for key, _ in self._data.values())


def _each(data, one, keep, preserve_tuples):
    again = lambda value: _each(value, one, keep, preserve_tuples)  # noqa: E731
    if isinstance(data, collections.abc.Mapping):
        return type(data)((again(key), again(value)) for key, value in data.items()) if isinstance(data, dict) else {again(key): again(data[key]) for key in data}
    if isinstance(data, tuple):
        items = [again(item) for item in data]
        return tuple(items) if preserve_tuples else items
    if isinstance(data, list):
        return [again(item) for item in data]
    if isinstance(data, (str, bytes)):
        try:
            return one(data)
        except (UnicodeError, TypeError):
            if not keep:
                raise
    return data


def decode(data, encoding=None, errors="strict", keep=False, normalize=False, preserve_dict_class=False, preserve_tuples=False, to_str=False):
    from salt.utils.stringutils import to_unicode

    return _each(data, lambda text: to_unicode(text, encoding, errors), keep, preserve_tuples)


def encode(data, encoding=None, errors="strict", keep=False, preserve_dict_class=False, preserve_tuples=False):
    return _each(data, lambda text: to_bytes(text, encoding, errors), keep, preserve_tuples)


decode_dict = decode_list = decode
encode_dict = encode_list = encode


def compare_dicts(old=None, new=None):
    old, new = old or {}, new or {}
    return {
        key: {"new": new.get(key, ""), "old": old.get(key, "")}
        for key in set(old) | set(new)
        if key not in old or key not in new or old[key] != new[key]
    }


def compare_lists(old=None, new=None):
    found = {"new": [item for item in new or [] if item not in old or []], "old": [item for item in old or [] if item not in new or []]}
    return {key: items for key, items in found.items() if items}


def is_true(value=None):
    if isinstance(value, str):
        value = value.lower() == "true" or (value.strip("-").isdigit() and int(value) > 0)
    elif isinstance(value, (int, float)):
        return value > 0
    return bool(value)


def is_list(value):
    return isinstance(value, list)


def is_iter(thing, ignore=(str,)):
    return hasattr(thing, "__iter__") and not isinstance(thing, ignore)


def traverse_dict(data, key, default=None, delimiter=":"):
    for part in str(key).split(delimiter):
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            return default
    return data


def traverse_dict_and_list(data, key, default=None, delimiter=":"):
    for part in str(key).split(delimiter) if not isinstance(key, int) else [key]:
        if isinstance(data, list):
            try:
                data = data[int(part)]
                continue
            except (ValueError, IndexError):
                holder = next((item for item in data if isinstance(item, dict) and part in item), None)
                if holder is None:
                    return default
                data = holder
        try:
            data = data[part]
        except (KeyError, TypeError):
            try:
                data = data[int(part)]
            except (KeyError, TypeError, ValueError):
                return default
    return data


def subdict_match(data, expr, delimiter=":", regex_match=False, exact_match=False):
    def fits(target, pattern):
        target = str(target).lower()
        if exact_match:
            return target == pattern.lower()
        return bool(re.match(pattern.lower(), target)) if regex_match else fnmatch.fnmatch(target, pattern.lower())

    parts = expr.split(delimiter)
    for at in range(len(parts) - 1, 0, -1):
        found = traverse_dict_and_list(data, delimiter.join(parts[:at]), {}, delimiter)
        pattern = delimiter.join(parts[at:])
        if found == {}:
            continue
        if pattern == "*":
            return True
        for item in found if isinstance(found, (list, dict)) else [found]:
            if fits(item, pattern):
                return True
    return False


def is_dictlist(data):
    return isinstance(data, list) and bool(data) and all(isinstance(item, dict) and len(item) == 1 for item in data)


def repack_dictlist(data, strict=False, recurse=False, key_cb=None, val_cb=None):
    packed = {}
    for item in data if isinstance(data, list) else []:
        if isinstance(item, dict) and len(item) == 1:
            key, value = next(iter(item.items()))
            if recurse and is_dictlist(value):
                value = repack_dictlist(value, recurse=True)
        elif isinstance(item, (str, int, float)):
            key, value = item, None
        elif strict:
            return {}
        else:
            continue
        packed[key_cb(key) if key_cb else key] = val_cb(key, value) if val_cb else value
    return packed


def filter_by(lookup_dict, lookup, traverse, merge=None, default="default", base=None):
    from salt.utils.dictupdate import update

    found = None
    values = lookup if isinstance(lookup, list) else [lookup]
    values = [traverse_dict_and_list(traverse, value, value) for value in values] if traverse is not None else values
    for value in values:
        for one in value if isinstance(value, list) else [value]:
            keys = [key for key in lookup_dict if fnmatch.fnmatchcase(str(one), str(key))]
            if keys and found is None:
                found = lookup_dict[keys[0]]
    if found is None:
        found = lookup_dict.get(default)
    if base and base in lookup_dict:
        found = update(copy.deepcopy(lookup_dict[base]), found or {})
    return update(copy.deepcopy(found) or {}, copy.deepcopy(merge)) if merge else found


def stringify(data):
    return [to_str(item) if isinstance(item, (str, bytes)) else str(item) for item in data]


def sorted_ignorecase(to_sort):
    return sorted(to_sort, key=lambda item: item.lower())


def simple_types_filter(data):
    if isinstance(data, dict):
        return {key if isinstance(key, (str, int, float)) else repr(key): simple_types_filter(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [simple_types_filter(item) for item in data]
    return data if data is None or isinstance(data, (str, int, float)) else repr(data)


def flatten(data, levels=None, preserve_nulls=False, _ids=None):
    flat = []
    for item in data:
        if isinstance(item, (list, tuple)) and levels != 0:
            flat.extend(flatten(item, None if levels is None else levels - 1, preserve_nulls))
        elif preserve_nulls or item not in (None, "None", "null"):
            flat.append(item)
    return flat


def recursive_diff(old, new, ignore_keys=None, ignore_order=False, ignore_missing_keys=False):
    changed = {"old": {}, "new": {}}
    if not (isinstance(old, dict) and isinstance(new, dict)):
        same = sorted(old, key=repr) == sorted(new, key=repr) if ignore_order and isinstance(old, list) and isinstance(new, list) else old == new
        return {} if same else {"old": old, "new": new}
    for key in list(old) + [key for key in new if key not in old]:
        if key in (ignore_keys or ()) or (ignore_missing_keys and key not in new):
            continue
        if key in old and key in new:
            for side, value in recursive_diff(old[key], new[key], ignore_keys, ignore_order, ignore_missing_keys).items():
                changed[side][key] = value
        else:
            side, holder = ("old", old) if key in old else ("new", new)
            changed[side][key] = holder[key]
    return {side: value for side, value in changed.items() if value}
